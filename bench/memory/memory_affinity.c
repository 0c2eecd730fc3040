// SPDX-License-Identifier: Apache-2.0
// What binding threads to cores or to NUMA nodes gains, on memory that each thread touched first.
#include "bench/memory/memory_pair.h"

#include "base/err.h"

#include <stdio.h>

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
