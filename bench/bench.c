// SPDX-License-Identifier: Apache-2.0
// The frame of every benchmark: which there are, alternating repetitions, medians, and results in one line a case.
#include "bench.h"

#include "err.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct benchmark {
    const char *name;
    int (*run)(int argc, const char **argv);
    const char *summary;
} benchmarks[] = {
    {"adam", bench_adam_main, "the optimizer: ns per parameter against a copy of the same streams"},
    {"comm", bench_comm_main, "the collectives: GB/s against concurrent copies of the same bytes"},
    {"nvme", bench_nvme_main, "storage: GB/s and latency against fio, and what checksums cost"},
    {"overlap", bench_overlap_main, "a step with every state on NVMe against its busiest lane"},
    {"step", bench_step_main, "a training step of every stage against one process doing all the work"},
    {"swap", bench_swap_main, "the optimizer with its states on NVMe against the disk, and against Adam"},
};
enum { BENCHMARK_COUNT = sizeof benchmarks / sizeof benchmarks[0] };

static void benchmarks_print(FILE *out)
{
    fprintf(out, "usage: zerogauge bench NAME [OPTION...]     (--help after a name lists its options)\n");
    for (int i = 0; i < BENCHMARK_COUNT; i++)
        fprintf(out, "  %-7s %s\n", benchmarks[i].name, benchmarks[i].summary);
}

int bench_main(int argc, const char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        benchmarks_print(stdout);
        return 0;
    }
    for (int i = 0; i < BENCHMARK_COUNT; i++) {
        if (strcmp(argv[1], benchmarks[i].name) == 0)
            return benchmarks[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "zerogauge bench: there is no benchmark '%s'\n", argv[1]);
    benchmarks_print(stderr);
    return err_exit_status(ERR_USAGE);
}

uint64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_quantile(const struct bench_samples *samples, double q)
{
    assert(samples->count > 0 && samples->count <= BENCH_REPEAT_MAX && q >= 0 && q <= 1);
    double sorted[BENCH_REPEAT_MAX];
    memcpy(sorted, samples->values, samples->count * sizeof sorted[0]);
    qsort(sorted, samples->count, sizeof sorted[0], compare_doubles);
    // Between two samples the quantile is on the straight line from one to the other.
    double position = q * (double)(samples->count - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < samples->count ? below + 1 : below;
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

double bench_median(const struct bench_samples *samples)
{
    return bench_quantile(samples, 0.5);
}

static int repetition(const struct bench_work *work, double per, struct bench_samples *samples)
{
    if (work->prepare)
        TRY(work->prepare(work->context));
    uint64_t start_ns = bench_now_ns();
    TRY(work->run(work->context));
    uint64_t end_ns = bench_now_ns();
    if (samples)
        samples->values[samples->count++] = (double)(end_ns - start_ns) / per;
    return ERR_NONE;
}

int bench_alternate(const struct bench_work *work, const struct bench_work *yardstick, size_t warmup, size_t repeat,
                    double per, struct bench_samples *work_samples, struct bench_samples *yardstick_samples)
{
    assert(repeat > 0 && repeat <= BENCH_REPEAT_MAX && per > 0);
    work_samples->count = yardstick_samples->count = 0;
    for (size_t i = 0; i < warmup + repeat; i++) {
        bool counted = i >= warmup;
        TRY(repetition(work, per, counted ? work_samples : NULL));
        TRY(repetition(yardstick, per, counted ? yardstick_samples : NULL));
    }
    return ERR_NONE;
}

double bench_ratio(const struct bench_record *record)
{
    double work = bench_median(record->samples), yardstick = bench_median(record->yardstick);
    return record->lower_is_better ? yardstick / work : work / yardstick;
}

// Releases the description and says why the record is not printed.
static int refuse_unverified(struct bench_record *record)
{
    char *text = json_dumps(record->description, JSON_PRESERVE_ORDER);
    int code = err_set(ERR_CHECK, "the data of this case is wrong, so it has no number: %s %s", record->name,
                       text ? text : "");
    free(text);
    json_decref(record->description);
    return code;
}

static json_t *samples_json(const struct bench_samples *samples)
{
    json_t *array = json_array();
    for (size_t i = 0; i < samples->count; i++)
        json_array_append_new(array, json_real(samples->values[i]));
    return array;
}

int bench_print_json(struct bench_record *record)
{
    if (!record->verified)
        return refuse_unverified(record);
    bench_progress("%s", "");
    json_t *yardstick = json_null(), *ratio = json_null();
    if (record->yardstick) {
        yardstick = json_pack("{s:s, s:o, s:f, s:s}", "name", record->yardstick_name, "samples",
                              samples_json(record->yardstick), "median", bench_median(record->yardstick), "unit",
                              record->unit);
        ratio = json_real(bench_ratio(record));
    }
    json_t *line = json_pack("{s:s, s:s, s:o, s:o, s:f, s:s, s:b, s:o, s:o}", "record", "bench", "name", record->name,
                             "case", record->description, "samples", samples_json(record->samples), "median",
                             bench_median(record->samples), "unit", record->unit, "verified", 1, "yardstick", yardstick,
                             "ratio", ratio);
    if (!line)
        return err_set(ERR_MEMORY, "no memory for a result line");
    // Six digits are finer than the clock; more would be noise.
    int failed = json_dumpf(line, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    json_decref(line);
    if (failed || putchar('\n') == EOF || fflush(stdout) == EOF)
        return err_set(ERR_IO, "cannot write the result");
    return ERR_NONE;
}

int bench_print_text(struct bench_record *record)
{
    if (!record->verified)
        return refuse_unverified(record);
    bench_progress("%s", "");
    const char *key;
    json_t *value;
    printf("%s", record->name);
    json_object_foreach(record->description, key, value)
    {
        if (json_is_string(value))
            printf("  %s=%s", key, json_string_value(value));
        else if (json_is_integer(value))
            printf("  %s=%lld", key, (long long)json_integer_value(value));
        else if (json_is_boolean(value))
            printf("  %s=%s", key, json_is_true(value) ? "yes" : "no");
    }
    double median = bench_median(record->samples);
    printf("\n    %.4g %s (%.4g to %.4g in %zu runs)", median, record->unit, bench_quantile(record->samples, 0.1),
           bench_quantile(record->samples, 0.9), record->samples->count);
    if (record->item_bytes > 0)
        printf("  %.1f GB/s", record->item_bytes / median);
    if (record->yardstick)
        printf("  %s %.4g  ratio %.3f", record->yardstick_name, bench_median(record->yardstick), bench_ratio(record));
    printf("\n");
    json_decref(record->description);
    return fflush(stdout) == EOF ? err_set(ERR_IO, "cannot write the result") : ERR_NONE;
}

void bench_progress(const char *format, ...)
{
    if (!isatty(STDERR_FILENO))
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}

int bench_exit(const char *name, int code)
{
    bench_progress("%s", "");
    if (code != ERR_NONE)
        fprintf(stderr, "zerogauge bench %s: %s\n", name, err_message());
    return err_exit_status(code);
}
