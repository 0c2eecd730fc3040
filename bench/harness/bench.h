// SPDX-License-Identifier: Apache-2.0
// What every benchmark shares: its command line, alternating repetitions of the thing measured and its baseline in one
// process, and results of one form, which results/RECORDS.md describes: medians with spread, raw samples kept, and the
// ratio of achieved over limit: 1.0 at the limit, higher is better. A number is printed only if its data was verified.
#ifndef ZG_BENCH_H
#define ZG_BENCH_H

#include "base/statistics.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_LIST_MAX = 32 };

// Which of the shared options a benchmark takes: those of all; those of storage, of which one without a page cache
// refuses --buffered; those of states on storage, too.
enum bench_uses { BENCH_USES_NOTHING, BENCH_USES_DIRECT, BENCH_USES_STORAGE, BENCH_USES_STATES };

// A subcommand of `zerogauge bench`, which its own file defines as bench_NAME; bench/table/benchmarks.h lists them.
struct benchmark {
    const char *name;
    int (*run)(int argc, const char **argv);  // argv[0] is the name; returns the exit status
    enum bench_uses uses;
    bool together;  // under a launcher all ranks measure one thing; otherwise the first rank of each host its own host
    const char *summary;
    const char *const examples[4];  // of command lines, for --help; null behind the last
};

struct bench_storage {
    const char *const *paths;  // --nvme-path, again for more; "." where nothing is said
    int path_count;
    char *engine;        // --engine; null: not said
    bool buffered;       // --buffered: through the page cache, and every result says so
    bool no_checksum;    // --no-swap-checksum
    char *inject;        // --inject: faults to provoke; null: none
    char **given_paths;  // popt's allocation
};

// What every benchmark takes from its command line. Zero or empty where the user said nothing: the benchmark's own.
struct bench_options {
    size_t sizes[BENCH_LIST_MAX];  // --sizes 64K,64M: in the benchmark's unit; K, M, G are powers of 1024
    size_t size_count;
    int threads[BENCH_LIST_MAX];  // --threads 1,all
    size_t thread_count;
    size_t repeat, warmup;  // --repeat, --warmup
    bool quick;             // --quick: fewer and smaller cases; the numbers are as true
    bool json;              // --json: one line a case on standard output
    bool help;              // --help: the text is printed, nothing is to be run
    struct bench_storage storage;
};

// Parses argv[1..] by `own` options (a popt table, or null) and the shared ones; ERR_USAGE for anything else. argv[0]
// is the benchmark's name. Opens the result file of --out, which bench_exit ends. Released with bench_release, also
// after an error.
struct poptOption;
int bench_parse(int argc, const char **argv, const struct benchmark *benchmark, const struct poptOption *own,
                struct bench_options *out);
void bench_release(struct bench_options *options);

// Sets sizes, threads or repetitions where the user said nothing.
void bench_default_sizes(struct bench_options *options, const size_t *sizes, size_t count);
void bench_default_repeat(struct bench_options *options, size_t repeat, size_t quick_repeat, size_t warmup);

// "64K,1M,3" into numbers from 1 up; at most BENCH_LIST_MAX.
int bench_parse_sizes(const char *text, size_t *out, size_t *count);

// Processors this process may run on: what `--threads all` means.
int bench_thread_count(void);

// Bytes of the machine's last-level caches together: arrays larger than this do not stay in them.
size_t bench_cache_bytes(void);

// Anonymous memory in huge pages where the system gives them, written first by `threads` threads, each its own
// contiguous part. Null: none left. Given back with bench_free.
void *bench_alloc(size_t bytes, int threads);
void bench_free(void *memory, size_t bytes);

// The two steps of it: memory that is not written yet, in huge pages or in none; and zeros in it.
void *bench_map(size_t bytes, bool huge);
void bench_touch(void *memory, size_t bytes, int threads);

// How many bytes of the mappings that hold this memory are in huge pages, at most `bytes`.
size_t bench_huge_bytes(const void *memory, size_t bytes);

// One line on standard error saying what runs now, only if that is a terminal; replaced by the next, and removed by
// any result.
void bench_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Says on standard error what is not measured, and why: "SKIP: ...". Returns ERR_NONE.
int bench_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Ends a benchmark: its error message, if code is one, on standard error; the exit status: 77 where code is ERR_NONE
// and something was skipped, but nothing measured.
int bench_exit(const char *name, int code);

uint64_t bench_now_ns(void);

struct bench_work {
    const char *name;
    int (*run)(void *context);      // one repetition; the time it takes is the sample
    int (*prepare)(void *context);  // before each repetition, not timed; may be null
    void *context;
};

enum { BENCH_REPEAT_MAX = STATISTICS_COUNT_MAX };

// A sample lasts at least about this long, by as many rounds of the same work as it takes: then what the clock, a
// thread's start or a barrier add is small beside it.
enum { BENCH_SAMPLE_NS = 2000000 };

struct bench_samples {
    size_t count;
    double values[BENCH_REPEAT_MAX];  // in the case's unit
};

double bench_median(const struct bench_samples *samples);
double bench_quantile(const struct bench_samples *samples, double q);

// One repetition, and how long it took.
int bench_time(const struct bench_work *work, uint64_t *ns);

// Runs work and baseline in turn, `warmup` pairs uncounted and `repeat` counted; samples are nanoseconds divided by
// `items` (parameters, bytes, 1).
int bench_alternate(const struct bench_work *work, const struct bench_work *baseline, size_t warmup, size_t repeat,
                    double items, struct bench_samples *work_samples, struct bench_samples *baseline_samples);

// Nanoseconds become GB/s.
void bench_rate(struct bench_samples *samples, double bytes);

// One case's result. lower_is_better: units of time; then ratio = baseline / work, else work / baseline.
struct bench_record {
    const char *name;
    json_t *description;  // the "case" object: settings alone, so that the same case is found in another run
    json_t *detail;       // what else was measured, as RECORDS.md has it; null: nothing
    const char *unit;
    bool lower_is_better;
    bool verified;
    double items;           // that one sample covers
    double baseline_items;  // that one of the baseline covers; 0: the same
    uint64_t begin_ns;      // when the case began (bench_now_ns), its warm-up included
    double item_bytes;      // bytes that one item of a unit of time must move, for GB/s beside it; 0: not shown
    const struct bench_samples *samples;
    const char *baseline_name;
    const struct bench_samples *baseline;  // null: this machine has none, and the ratio is null
    json_t *timeline;                      // of one step, as RECORDS.md has it; null: none
    bool tabled;      // a reader sees it in a table of the benchmark's own: nothing is printed for one
    const char *row;  // what a reader sees after the percentage; null: the case, median, spread and baseline
};
double bench_ratio(const struct bench_record *record);

// Prints the case: with --json its record, else for a reader, the percentage of the baseline first; and writes the
// record to the file of --out. Takes description, detail and timeline over. An unverified record is
// refused with ERR_CHECK, and a null description with ERR_MEMORY.
int bench_print(const struct bench_options *options, struct bench_record *record);

#endif
