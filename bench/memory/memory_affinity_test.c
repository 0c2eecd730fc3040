// SPDX-License-Identifier: Apache-2.0
// Threads that are bound to cores and nodes, and what a gain is.
#include "bench/memory/memory_bench.h"

#include "base/err.h"
#include "base/pretended_test.h"
#include "bench/harness/printed_test.h"
#include "bench/table/benchmarks.h"

#include <criterion/criterion.h>

#include <omp.h>
#include <sched.h>

// The processors that each thread of a team may run on.
static void masks_of(cpu_set_t *masks, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int thread = 0; thread < threads; thread++)
        sched_getaffinity(0, sizeof masks[thread], &masks[thread]);
}

Test(memory_affinity, each_thread_has_a_core_of_its_own_and_is_released_again)
{
    struct memory_nodes nodes;
    cpu_set_t masks[256], all, before;
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof before, &before);
    cr_assert_eq(memory_nodes_open(&nodes), ERR_NONE, "%s", err_message());
    int cores = memory_nodes_cores(&nodes);
    cr_assert(cores >= 1 && cores <= 256);
    cr_expect_leq(cores, CPU_COUNT(&before));
    cr_assert_eq(memory_nodes_place(&nodes, MEMORY_ONE_PER_CORE, cores), ERR_NONE, "%s", err_message());
    masks_of(masks, cores);
    for (int i = 0; i < cores; i++) {
        cr_expect_eq(CPU_COUNT(&masks[i]), 1, "thread %d", i);
        CPU_OR(&all, &all, &masks[i]);
    }
    cr_expect_eq(CPU_COUNT(&all), cores, "no two threads share a core");
    cr_assert_eq(memory_nodes_place(&nodes, MEMORY_BY_NODE, cores), ERR_NONE);
    masks_of(masks, cores);
    for (int i = 0; i < cores; i++)
        cr_expect_eq(CPU_COUNT(&masks[i]), memory_nodes_threads(&nodes, i * nodes.count / cores));
    cr_assert_eq(memory_nodes_place(&nodes, MEMORY_AS_GIVEN, cores), ERR_NONE);
    masks_of(masks, cores);
    for (int i = 0; i < cores; i++)
        cr_expect(CPU_EQUAL(&masks[i], &before));
    memory_nodes_close(&nodes);
}

static char *text_of(int argc, const char **argv)
{
    struct printed output = printed_begin();
    cr_expect_eq(bench_memory.run(argc, argv), 0);
    return printed_end(output);
}

Test(memory_affinity, one_node_is_measured_by_core_alone)
{
    const char *argv[] = {"memory", "--operation", "copy", "--sizes=1M", "--threads=1", "--repeat=3"};
    char root[PATH_MAX];
    pretended_machine(folder_make(root), "numa:1 l3:1(size=1MiB) core:2 pu:1", 200);
    char *text = text_of(6, argv);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
    cr_expect(strstr(text, "memory_affinity copy"), "%s", text);
    cr_expect(strstr(text, "threads as given"), "%s", text);
    cr_expect(strstr(text, "placement=one per core\nHINT     threads bound one per core "), "%s", text);
    cr_expect_null(strstr(text, "by NUMA node"), "%s", text);
    free(text);
}

Test(memory_affinity, several_nodes_are_measured_by_node_too)
{
    const char *argv[] = {"memory", "--operation", "copy", "--sizes=1M", "--threads=1", "--repeat=3", "--json"};
    char root[PATH_MAX];
    pretended_machine(folder_make(root), "numa:2 l3:1(size=1MiB) core:1 pu:1", 200);
    char *text = text_of(7, argv);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
    cr_expect(strstr(text, "\"placement\":\"one per core\""), "%s", text);
    // A process with one processor has one node.
    if (strstr(text, "memory_numa"))
        cr_expect(strstr(text, "\"placement\":\"by NUMA node\""), "%s", text);
    cr_expect_null(strstr(text, "HINT"), "%s", text);
    free(text);
}

static struct bench_samples samples_of(const double values[5])
{
    struct bench_samples samples = {.count = 5};
    for (int i = 0; i < 5; i++)
        samples.values[i] = values[i];
    return samples;
}

Test(memory_affinity, a_gain_is_what_the_spread_does_not_hide)
{
    struct bench_samples slow = samples_of((const double[]){10, 10, 10, 11, 9});
    struct bench_samples fast = samples_of((const double[]){12, 13, 12, 14, 12.5});
    struct bench_samples wide = samples_of((const double[]){9, 15, 14, 16, 10});
    cr_expect_float_eq(memory_gain(&fast, &slow), 0.25, 1e-9);
    cr_expect_float_eq(memory_gain(&slow, &fast), -0.2, 1e-9);
    cr_expect_eq(memory_gain(&wide, &slow), 0);
    cr_expect_eq(memory_gain(&slow, &slow), 0);
}
