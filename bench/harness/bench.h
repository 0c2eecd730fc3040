// SPDX-License-Identifier: Apache-2.0
// The harness of all benchmarks: command line, alternating repetitions of the work and its baseline in one process, and
// results in one format, which results/RECORDS.md describes: median and spread, raw samples, and the ratio of achieved
// over baseline (1.0 at the baseline, higher is better). A measurement is printed only after its data was verified.
#pragma once

#include "base/clock.h"
#include "base/statistics.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_LIST_MAX = 32 };

// The shared options that a benchmark takes. NOTHING: those of all benchmarks. DIRECT: those of storage, too, but
// --buffered is refused. STORAGE: all of storage. STATES: those of states on storage, too.
enum bench_uses { BENCH_USES_NOTHING, BENCH_USES_DIRECT, BENCH_USES_STORAGE, BENCH_USES_STATES };

// A subcommand of `zerogauge bench`, which its own file defines as bench_NAME; bench/table/benchmarks.h lists them.
struct benchmark {
    const char *name;
    int (*run)(int argc, const char **argv);  // argv[0] is the name; returns the exit status
    enum bench_uses uses;
    bool together;  // under a launcher all ranks measure together; false: the first rank of each host measures its host
    const char *summary;
    const char *text;               // sentences for --help and the manual; null: the summary suffices
    const char *const examples[5];  // command lines for --help, null after the last
};

struct bench_storage {
    const char *const *paths;  // --nvme-path, which may be repeated; {"."} by default
    int path_count;
    char *engine;        // --engine; null: not given
    bool buffered;       // --buffered: use the page cache; every result records it
    bool no_checksum;    // --no-swap-checksum
    char *inject;        // --inject: faults to inject; null: none
    char **given_paths;  // popt's allocation
};

// The shared options of a command line. Zero or empty: not given, so the benchmark's default applies.
struct bench_options {
    size_t sizes[BENCH_LIST_MAX];  // --sizes 64K,64M: in the benchmark's unit; K, M, G are powers of 1024
    size_t size_count;
    int threads[BENCH_LIST_MAX];  // --threads 1,all
    size_t thread_count;
    size_t repeat, warmup;  // --repeat, --warmup
    double budget_s;        // --budget; 0: not given
    bool quick;             // --quick: fewer and smaller cases, measured the same way
    bool json;              // --json: one JSON line per case on standard output
    bool help;              // --help: the text has been printed; measure nothing
    struct bench_storage storage;
};

// Runs a benchmark; under a launcher on all ranks together, or on the first rank of each host. Returns the exit status.
int bench_run(const struct benchmark *benchmark, int argc, const char **argv);

// Parses argv[1..] with the benchmark's own options (a popt table, or null) and the shared ones. argv[0] is the
// benchmark's name. Opens the result file of --out, which bench_exit closes. ERR_USAGE: unknown or malformed options.
// The caller releases *out and its own options with bench_release, after an error too.
struct poptOption;
int bench_parse(int argc, const char **argv, const struct benchmark *benchmark, const struct poptOption *own,
                struct bench_options *out);
void bench_release(struct bench_options *options, const struct poptOption *own);

// Sets sizes or repetitions that the user did not give.
void bench_default_sizes(struct bench_options *options, const size_t *sizes, size_t count);
void bench_default_repeat(struct bench_options *options, size_t repeat, size_t quick_repeat, size_t warmup);

// Parses a list such as "64K,1M,3" into out[BENCH_LIST_MAX]. ERR_USAGE: a malformed list, a zero, or too many numbers.
int bench_parse_sizes(const char *text, size_t *out, size_t *count);

// Returns the number of processors that this process can keep busy (base/resources.h), which `--threads all` means.
int bench_thread_count(void);

// Returns the bytes of all last-level caches together that this process's processors share: larger arrays do not stay
// in cache. 0: unknown.
size_t bench_cache_bytes(void);

// Returns the bytes that a benchmark may allocate: three quarters of what this process can still have.
size_t bench_memory_bytes(void);

// Allocates zeroed memory, in huge pages where the system provides them. Each of `threads` threads touches its own
// contiguous part first. Null: out of memory. The caller frees it with bench_free (null-safe).
void *bench_alloc(size_t bytes, int threads);
void bench_free(void *memory, size_t bytes);

// The two steps of bench_alloc: map memory, untouched, with or without huge pages; then zero it.
void *bench_map(size_t bytes, bool huge);
void bench_touch(void *memory, size_t bytes, int threads);

// Returns how many bytes of the mappings that hold this memory are in huge pages, at most `bytes`.
size_t bench_huge_bytes(const void *memory, size_t bytes);

// Shows on standard error what runs now. On a terminal the next line replaces it, and any result removes it; elsewhere
// there is a line each ten seconds.
void bench_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Reports on standard error what cannot be measured here, and why: "SKIP: ...". Returns ERR_NONE.
int bench_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Reports that a case needs more memory than bench_memory_bytes permits: "SKIP: ...", and a `skip` record
// (results/RECORDS.md), so that a validation knows why an accepted range has no result. Takes ownership of the
// description.
int bench_skip_memory(const struct bench_options *options, const char *name, json_t *description, size_t needs_bytes,
                      size_t available_bytes);

// Ends a benchmark: closes its result file and prints the error message if `code` is an error. Returns the exit status,
// 77 if code is ERR_NONE but everything was skipped.
int bench_exit(const char *name, int code);

// --budget: the time that a benchmark may take. A case repeats its work until it has its samples, or until its share of
// the time is over and it has BENCH_REPEAT_LEAST. Without the option, and where the ranks of a launcher measure
// together, nothing is limited.
enum { BENCH_REPEAT_LEAST = 3 };

// Two minutes for a benchmark that would take longer: unless the user chose the time or the repetitions, and not where
// results are JSON or a file, which are for others and whole. Before bench_default_repeat.
void bench_default_budget(struct bench_options *options);

// Prints the budget, if there is one, where results are text.
void bench_say_budget(const struct bench_options *options);

// Starts the clock, for bench_parse; 0: no limit.
void bench_budget_begin(double seconds);

// Gives the next case its share of the time left. cases_left: counting this one.
void bench_budget_case(size_t cases_left);

// Returns whether another case as long as the last one would end by late_s after the time; true before the first.
bool bench_budget_fits(double late_s);

// bench_budget_case, or false where the case would end more than a tenth of the budget late; *cases_left is then 0, and
// a skip says how many it was. Quick runs leave none out.
bool bench_budget_next(const struct bench_options *options, const char *name, size_t *cases_left);

// Returns the seconds left, negative after the end; infinite without a limit.
double bench_budget_left_s(void);

// Returns whether a choice by trial makes another one, after `trials` of at most `most`: one is enough when the case's
// share of the time is over.
bool bench_tries(size_t most, size_t trials);

// Returns whether a case makes another round, after `round` rounds, of which the first `warmup` are uncounted.
bool bench_repeats(size_t warmup, size_t repeat, size_t round);

struct bench_work {
    const char *name;
    int (*run)(void *context);      // one repetition, timed
    int (*prepare)(void *context);  // before each repetition, not timed; may be null
    void *context;
};

enum { BENCH_REPEAT_MAX = STATISTICS_COUNT_MAX };

// Short work is repeated until a sample lasts about this long, so that the cost of the clock, of starting threads and
// of barriers is a small part of it.
enum { BENCH_SAMPLE_NS = 2000000 };

struct bench_samples {
    size_t count;
    double values[BENCH_REPEAT_MAX];  // in the case's unit
};

double bench_median(const struct bench_samples *samples);
double bench_quantile(const struct bench_samples *samples, double q);

// Prepares and runs one repetition. *ns: the time of the run.
int bench_time(const struct bench_work *work, uint64_t *ns);

// Runs work and baseline in turn: `warmup` pairs uncounted, then `repeat` (1 to BENCH_REPEAT_MAX) counted, or fewer
// (bench_repeats). Samples are nanoseconds divided by `items` (parameters, bytes, 1), which is above 0.
int bench_alternate(const struct bench_work *work, const struct bench_work *baseline, size_t warmup, size_t repeat,
                    double items, struct bench_samples *work_samples, struct bench_samples *baseline_samples);

// Work that reports its own time, such as a device's.
struct bench_timed {
    int (*run)(void *context, double *ms);  // one repetition
    void *context;
    double items;                   // in one repetition, above 0
    struct bench_samples *samples;  // receives nanoseconds divided by items
};

// Doubles *rounds, from 1, until a repetition of that many rounds takes BENCH_SAMPLE_NS, or *rounds is
// BENCH_ROUNDS_MAX. The first repetition, which may load code, decides nothing.
enum { BENCH_ROUNDS_MAX = 4096 };
int bench_choose_rounds(int (*run)(void *context, double *ms), void *context, uint64_t *rounds);

// Runs `count` works in turn: `warmup` rounds uncounted, then `repeat` (1 to BENCH_REPEAT_MAX) counted. Each round
// begins with another of them, so that none always runs after the same one.
int bench_take_turns(const struct bench_timed works[], size_t count, size_t warmup, size_t repeat);

// Converts samples from nanoseconds to GB/s.
void bench_rate(struct bench_samples *samples, double bytes);

// The result of one case. lower_is_better: the unit is a time, and ratio = baseline / work; else work / baseline.
struct bench_record {
    const char *name;
    json_t *description;  // the "case" object: settings only, so that other runs of the same case can be found
    json_t *detail;       // further measurements (results/RECORDS.md); null: none
    const char *unit;
    bool lower_is_better;
    double items;           // in one sample
    double baseline_items;  // in one sample of the baseline; 0: as many
    uint64_t begin_ns;      // start of the case (clock_now_ns), before its warm-up
    double item_bytes;      // bytes that an item must move, to print GB/s next to a time; 0: not printed
    const struct bench_samples *samples;
    const char *baseline_name;
    const struct bench_samples *baseline;  // null: this machine has none, and the ratio is null
    json_t *timeline;                      // of one step (results/RECORDS.md); null: none
    bool tabled;      // the benchmark prints a table of its own: bench_print prints no text for this case
    const char *row;  // the text after the percentage; null: case, median, spread and baseline
};

// Returns achieved over baseline; the record must have a baseline.
double bench_ratio(const struct bench_record *record);

// Prints the case, as JSON with --json, else as text that begins with the percentage of the baseline, and appends the
// record to the file of --out. The caller has verified the data: the record says so. Takes ownership of description,
// detail and timeline. ERR_MEMORY: the description is null.
int bench_print(const struct bench_options *options, struct bench_record *record);
