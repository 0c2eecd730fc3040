// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_pair.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>

static void row_of(const struct bench_record *record, const struct memory_pair *pair, char *out, size_t bytes)
{
    int at = snprintf(out, bytes, "%-12s %-8s %3d threads %8.2f GB/s (%.2f to %.2f)  %s %.2f", record->name,
                      memory_operation_name(pair->work.arrays->operation), pair->work.threads,
                      bench_median(record->samples), bench_quantile(record->samples, 0.1),
                      bench_quantile(record->samples, 0.9), pair->baseline_name, bench_median(record->baseline));
    const char *key;
    json_t *value;
    json_object_foreach (pair->description, key, value) {
        if (json_is_string(value))
            at += snprintf(out + at, bytes - (size_t)at, "  %s=%s", key, json_string_value(value));
        else if (json_is_integer(value))
            at += snprintf(out + at, bytes - (size_t)at, "  %s=%lld", key, (long long)json_integer_value(value));
    }
}

static double moved_bytes(const struct memory_work *work)
{
    return (double)(work->arrays->count * sizeof(memory_word)) * memory_operation_bytes(work->arrays->operation);
}

int memory_pair_measure(struct memory_bench *bench, struct memory_pair *pair)
{
    struct bench_samples samples, baselines;
    uint64_t begin_ns = clock_now_ns();
    struct memory_arrays *arrays = pair->work.arrays;
    size_t bytes = arrays->count * sizeof(memory_word);
    const struct bench_work work = {"work", memory_work_run, memory_work_prepare, &pair->work};
    const struct bench_work baseline = {"baseline", memory_work_run, memory_work_prepare, &pair->baseline};
    bench_progress("%s %s, %d threads, arrays of %zu bytes", pair->name,
                   memory_operation_name(pair->work.arrays->operation), pair->work.threads, bytes);
    assert(bench->cases_left > 0);
    bench_budget_case(bench->cases_left--);
    int code = bench_alternate(&work, &baseline, bench->options.warmup, bench->options.repeat, 1, &samples, &baselines);
    if (code == ERR_NONE)
        code = memory_arrays_check(arrays);
    if (code == ERR_NONE)
        code = memory_arrays_check(pair->baseline.arrays);
    if (code != ERR_NONE) {
        json_decref(pair->description);
        return code;
    }
    bench_rate(&samples, moved_bytes(&pair->work));
    bench_rate(&baselines, moved_bytes(&pair->baseline));
    char row[256];
    struct bench_record record = {
        .name = pair->name,
        .description =
            json_pack("{s:s, s:i, s:I, s:b}", "operation", memory_operation_name(pair->work.arrays->operation),
                      "threads", pair->work.threads, "array_bytes", (json_int_t)bytes, "in_cache", pair->in_cache),
        .detail = pair->huge_share > 0 ? json_pack("{s:f}", "huge_share", pair->huge_share) : NULL,
        .unit = "GB/s",
        .verified = true,
        .items = moved_bytes(&pair->work),
        .baseline_items = moved_bytes(&pair->baseline),
        .begin_ns = begin_ns,
        .samples = &samples,
        .baseline_name = pair->baseline_name,
        .baseline = &baselines,
        .row = row};
    row_of(&record, pair, row, sizeof row);
    json_object_update(record.description, pair->description);
    json_decref(pair->description);
    return bench_print(&bench->options, &record);
}
