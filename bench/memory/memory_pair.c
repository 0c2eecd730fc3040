// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_bench.h"

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

// Work whose threads are bound before each repetition.
struct placed {
    const struct memory_nodes *nodes;
    enum memory_placement placement;
    struct memory_work *work;
};

static int placed_prepare(void *context)
{
    const struct placed *placed = context;
    TRY(memory_nodes_place(placed->nodes, placed->placement, placed->work->threads));
    return memory_work_prepare(placed->work);
}

static int placed_run(void *context)
{
    return memory_work_run(((const struct placed *)context)->work);
}

double memory_gain(const struct bench_samples *samples, const struct bench_samples *baselines)
{
    bool faster = bench_quantile(samples, 0.1) > bench_quantile(baselines, 0.9);
    bool slower = bench_quantile(samples, 0.9) < bench_quantile(baselines, 0.1);
    return faster || slower ? bench_median(samples) / bench_median(baselines) - 1 : 0;
}

static int alternate(struct memory_bench *bench, struct memory_pair *pair, struct bench_samples *samples,
                     struct bench_samples *baselines)
{
    struct placed placed = {&bench->nodes, pair->placement, &pair->work};
    struct placed baseline_placed = {&bench->nodes, pair->baseline_placement, &pair->baseline};
    struct bench_work work = {"work", memory_work_run, memory_work_prepare, &pair->work};
    struct bench_work baseline = {"baseline", memory_work_run, memory_work_prepare, &pair->baseline};
    if (pair->placement != pair->baseline_placement) {
        work = (struct bench_work){"work", placed_run, placed_prepare, &placed};
        baseline = (struct bench_work){"baseline", placed_run, placed_prepare, &baseline_placed};
    }
    return bench_alternate(&work, &baseline, bench->options.warmup, bench->options.repeat, 1, samples, baselines);
}

int memory_pair_measure(struct memory_bench *bench, struct memory_pair *pair)
{
    struct bench_samples samples, baselines;
    uint64_t begin_ns = clock_now_ns();
    struct memory_arrays *arrays = pair->work.arrays;
    size_t bytes = arrays->count * sizeof(memory_word);
    bench_progress("%s %s, %d threads, arrays of %zu bytes", pair->name,
                   memory_operation_name(pair->work.arrays->operation), pair->work.threads, bytes);
    assert(bench->cases_left > 0);
    bench_budget_case(bench->cases_left--);
    int code = alternate(bench, pair, &samples, &baselines);
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
    pair->gain = memory_gain(&samples, &baselines);
    char row[256];
    struct bench_record record = {
        .name = pair->name,
        .description =
            json_pack("{s:s, s:i, s:I, s:b}", "operation", memory_operation_name(pair->work.arrays->operation),
                      "threads", pair->work.threads, "array_bytes", (json_int_t)bytes, "in_cache", pair->in_cache),
        .detail = pair->huge_share > 0 ? json_pack("{s:f}", "huge_share", pair->huge_share) : NULL,
        .unit = "GB/s",
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

static const struct {
    const char *name, *how;
} placements[] = {
    [MEMORY_AS_GIVEN] = {"as given", ""},
    [MEMORY_ONE_PER_CORE] = {"one per core", "OMP_PLACES=cores OMP_PROC_BIND=spread"},
    [MEMORY_BY_NODE] = {"by NUMA node", "OMP_PLACES=numa_domains OMP_PROC_BIND=spread, or one rank for each node: "
                                        "mpirun --map-by ppr:1:numa --bind-to numa"},
};

// A gain that the spread of the samples hides is none.
static void print_hint(const struct memory_bench *bench, const struct memory_pair *pair)
{
    const char *name = placements[pair->placement].name;
    if (bench->options.json)
        return;
    if (pair->gain == 0)
        printf("HINT     threads bound %s are as fast as they are now, within the spread\n", name);
    else if (pair->gain < 0)
        printf("HINT     threads bound %s lose %.0f %%: leave them as they are\n", name, -100 * pair->gain);
    else
        printf("HINT     threads bound %s gain %.0f %%: %s\n", name, 100 * pair->gain, placements[pair->placement].how);
}

static int placement_run(struct memory_bench *bench, enum memory_operation operation, size_t given,
                         enum memory_placement placement, int threads)
{
    struct memory_arrays bound = {0}, free_arrays = {0};
    int all = bench_thread_count();
    struct memory_size size = memory_bench_size(bench, operation, 2, given);
    size_t count = size.bytes / sizeof(memory_word);
    enum memory_way way = memory_own_way(operation, size.in_cache);
    TRY(memory_arrays_open(operation, count, all, all, true, &free_arrays));
    int code = memory_nodes_place(&bench->nodes, placement, threads);
    if (code == ERR_NONE)
        code = memory_arrays_open(operation, count, threads, threads, true, &bound);
    struct memory_pair pair = {.name = "memory_affinity",
                               .baseline_name = "threads as given",
                               .work = {.arrays = &bound, .way = way, .threads = threads},
                               .baseline = {.arrays = &free_arrays, .way = way, .threads = all},
                               .in_cache = size.in_cache,
                               .placement = placement};
    if (code == ERR_NONE) {
        pair.description = json_pack("{s:s}", "placement", placements[placement].name);
        code = memory_pair_measure(bench, &pair);
    }
    if (code == ERR_NONE)
        print_hint(bench, &pair);
    memory_arrays_close(&bound);
    memory_arrays_close(&free_arrays);
    int back = memory_nodes_place(&bench->nodes, MEMORY_AS_GIVEN, all);
    return code != ERR_NONE ? code : back;
}

int memory_affinity_cases(const struct memory_bench *bench)
{
    return bench->nodes.count > 1 ? 2 : 1;
}

int memory_affinity_run(struct memory_bench *bench, size_t given)
{
    // The mix of reads and writes that the optimizer makes, unless the user chose another operation.
    enum memory_operation operation = MEMORY_ADAM_MIX;
    int cores = memory_nodes_cores(&bench->nodes), all = bench_thread_count();
    for (int other = 0; other < MEMORY_OPERATION_COUNT && bench->operation; other++)
        operation = memory_bench_wants(bench, other) ? (enum memory_operation)other : operation;
    if (cores > 0)
        TRY(placement_run(bench, operation, given, MEMORY_ONE_PER_CORE, cores < all ? cores : all));
    if (bench->nodes.count < 2)
        return bench_skip("memory_affinity: this process may use one NUMA node only, so that threads cannot be bound "
                          "by node");
    return placement_run(bench, operation, given, MEMORY_BY_NODE, all);
}
