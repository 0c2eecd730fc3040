// SPDX-License-Identifier: Apache-2.0
// The first touch: memset over fresh memory, whose pages the system must provide, against memset over touched memory.
#include "bench/memory/memory_bench.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

struct touch {
    size_t bytes;
    int threads;
    bool huge;
    unsigned char value;  // of the next repetition
    unsigned char *fresh, *touched;
};

// Verifies that the first byte is `value` and that each other byte equals the one before.
static int check(const unsigned char *memory, size_t bytes, unsigned char value, const char *name)
{
    if (memory[0] == value && memcmp(memory, memory + 1, bytes - 1) == 0)
        return ERR_NONE;
    return err_set(ERR_CHECK, "%s does not hold what was written", name);
}

static int fresh_prepare(void *context)
{
    struct touch *touch = context;
    if (touch->fresh)
        TRY(check(touch->fresh, touch->bytes, touch->value, "fresh memory"));
    bench_free(touch->fresh, touch->bytes);
    touch->fresh = bench_map(touch->bytes, touch->huge);
    touch->value++;
    return touch->fresh ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu bytes", touch->bytes);
}

static int fresh_run(void *context)
{
    const struct touch *touch = context;
    memory_write((memory_word *)(void *)touch->fresh, touch->bytes / sizeof(memory_word), touch->value, MEMORY_LIBC,
                 touch->threads);
    return ERR_NONE;
}

static int touched_run(void *context)
{
    const struct touch *touch = context;
    memory_write((memory_word *)(void *)touch->touched, touch->bytes / sizeof(memory_word), touch->value, MEMORY_LIBC,
                 touch->threads);
    return ERR_NONE;
}

static int measure(struct memory_bench *bench, struct touch *touch)
{
    struct bench_samples samples, baselines;
    uint64_t begin_ns = clock_now_ns();
    const struct bench_work work = {"first touch", fresh_run, fresh_prepare, touch};
    const struct bench_work baseline = {"memset", touched_run, NULL, touch};
    const char *pages = touch->huge ? "huge" : "4 KiB";
    bench_progress("memory_touch, %s pages, %zu bytes", pages, touch->bytes);
    bench_budget_case(bench->cases_left--);
    TRY(bench_alternate(&work, &baseline, bench->options.warmup, bench->options.repeat, 1, &samples, &baselines));
    TRY(check(touch->fresh, touch->bytes, touch->value, "fresh memory"));
    TRY(check(touch->touched, touch->bytes, touch->value, "memory"));
    double huge_share = (double)bench_huge_bytes(touch->fresh, touch->bytes) / (double)touch->bytes;
    bench_rate(&samples, (double)touch->bytes);
    bench_rate(&baselines, (double)touch->bytes);
    char row[256];
    snprintf(row, sizeof row, "%-12s %-8s %3d threads %8.2f GB/s (%.2f to %.2f)  memset %.2f  pages=%s", "memory_touch",
             "write", touch->threads, bench_median(&samples), bench_quantile(&samples, 0.1),
             bench_quantile(&samples, 0.9), bench_median(&baselines), pages);
    struct bench_record record = {.name = "memory_touch",
                                  .description =
                                      json_pack("{s:s, s:i, s:I, s:s}", "operation", "write", "threads", touch->threads,
                                                "array_bytes", (json_int_t)touch->bytes, "pages", pages),
                                  .detail = json_pack("{s:f}", "huge_share", huge_share),
                                  .unit = "GB/s",
                                  .verified = true,
                                  .items = (double)touch->bytes,
                                  .begin_ns = begin_ns,
                                  .samples = &samples,
                                  .baseline_name = "memset",
                                  .baseline = &baselines,
                                  .row = row};
    return bench_print(&bench->options, &record);
}

int memory_touch_run(struct memory_bench *bench, size_t bytes, int threads)
{
    if (bench->operation && strcmp(bench->operation, "write") != 0)
        return ERR_NONE;
    int code = ERR_NONE;
    for (int huge = 1; huge >= 0 && code == ERR_NONE; huge--) {
        struct touch touch = {.bytes = bytes, .threads = threads, .huge = huge, .touched = bench_alloc(bytes, threads)};
        code = touch.touched ? measure(bench, &touch) : err_set(ERR_MEMORY, "no memory for %zu bytes", bytes);
        bench_free(touch.fresh, bytes);
        bench_free(touch.touched, bytes);
    }
    return code;
}
