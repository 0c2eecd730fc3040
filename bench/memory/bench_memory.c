// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench memory`: the bandwidth of copies, reads, writes and Adam's mix (4 arrays read, 3 of them written) by
// thread count: the rooflines of the other benchmarks. The baseline is the fastest way that is known here, by trial
// (memory_kernels.h): loops, streaming stores, the C library, string instructions. Then the cost of 4 KiB pages, of the
// first touch and of memory on another NUMA node, each against the same work without it. With --device cuda the memory
// is a GPU's (memory_device.c).
//
// GB/s   bytes read plus bytes written by the program, over time: a copy of S bytes moves 2S. Cache lines that the CPU
//        fetches only to overwrite them do not count.
#include "bench/memory/memory_bench.h"

#include "base/err.h"

#include <popt.h>
#include <stdio.h>
#include <string.h>

static int memory_main(int argc, const char **argv);

const struct benchmark bench_memory = {
    .name = "memory",
    .run = memory_main,
    .uses = BENCH_USES_NOTHING,
    .summary = "copies, reads, writes, Adam's mix: GB/s against the fastest way known",
    .examples = {"zerogauge bench memory --quick", "zerogauge bench memory --threads 1,all --out memory.jsonl",
                 "zerogauge bench memory --device cuda"},
};

// Reports that the arrays cannot be larger than the caches.
static int skip_past_cache(const struct memory_bench *bench, enum memory_operation operation, int threads,
                           const struct memory_size *size)
{
    int arrays = memory_operation_arrays(operation);
    json_t *description = json_pack("{s:s, s:i, s:I, s:b}", "operation", memory_operation_name(operation), "threads",
                                    threads, "array_bytes", (json_int_t)size->needs_bytes / arrays, "in_cache", 0);
    return bench_skip_memory(&bench->options, "memory", description, size->needs_bytes, bench->memory_bytes);
}

// Measures an operation in our own way against the fastest of all ways.
static int rate_run(struct memory_bench *bench, enum memory_operation operation, size_t given, int threads)
{
    struct memory_size size = memory_bench_size(bench, operation, 1, given);
    struct memory_arrays arrays;
    if (given == 0 && size.in_cache)
        TRY(skip_past_cache(bench, operation, threads, &size));
    TRY(memory_arrays_open(operation, size.bytes / sizeof(memory_word), threads, bench_thread_count(), true, &arrays));
    struct memory_pair pair = {.name = "memory", .in_cache = size.in_cache};
    pair.work =
        (struct memory_work){.arrays = &arrays, .way = memory_own_way(operation, size.in_cache), .threads = threads};
    bench_budget_case(bench->cases_left);
    int code = memory_work_fastest(&pair.work, &pair.baseline);
    pair.baseline_name = memory_way_name(operation, pair.baseline.way);
    if (code == ERR_NONE)
        code = memory_pair_measure(bench, &pair);
    memory_arrays_close(&arrays);
    return code;
}

static int rates_run(struct memory_bench *bench, size_t given, int threads)
{
    for (int operation = 0; operation < MEMORY_OPERATION_COUNT; operation++)
        if (memory_bench_wants(bench, operation))
            TRY(rate_run(bench, (enum memory_operation)operation, given, threads));
    return ERR_NONE;
}

static int selection_complete(struct memory_bench *bench)
{
    struct bench_options *options = &bench->options;
    bench->cache_bytes = bench_cache_bytes();
    bench->memory_bytes = bench_memory_bytes();
    TRY(memory_bench_sizes(bench, &(size_t){0}, 1));
    if (options->thread_count > 0)
        return ERR_NONE;
    // All, then 1, 2, 4, ...; with --quick all and 1.
    int all = bench_thread_count();
    options->threads[options->thread_count++] = all;
    for (int threads = 1; threads < all && options->thread_count < BENCH_LIST_MAX; threads *= 2)
        if (threads == 1 || !options->quick)
            options->threads[options->thread_count++] = threads;
    return ERR_NONE;
}

// Returns the number of cases of one size, so that each gets its share of the time.
static size_t case_count(const struct memory_bench *bench)
{
    size_t operations = 0, groups = bench->options.thread_count + 1, touches = 2;
    for (int operation = 0; operation < MEMORY_OPERATION_COUNT; operation++)
        operations += memory_bench_wants(bench, operation);
    for (int node = 0; node < bench->nodes.count; node++)
        for (int memory_node = 0; memory_node < bench->nodes.count; memory_node++)
            groups += memory_bench_wants_nodes(bench, node, memory_node);
    return groups * operations + touches + (size_t)memory_affinity_cases(bench);
}

// The cases that no accepted range judges are last and are left out when the time is over.
static bool is_over(const struct memory_bench *bench, const char *what)
{
    bool over = bench_budget_left_s() <= 0;
    if (over)
        bench_skip("%s: the %g s of --budget are over", what, bench->options.budget_s);
    return over;
}

static int size_run(struct memory_bench *bench, size_t given)
{
    const struct bench_options *options = &bench->options;
    int most = 1;
    bench->cases_left = case_count(bench);
    for (size_t t = 0; t < options->thread_count; t++) {
        most = options->threads[t] > most ? options->threads[t] : most;
        if (t == 0 || !is_over(bench, "memory with fewer threads"))
            TRY(rates_run(bench, given, options->threads[t]));
    }
    if (!is_over(bench, "memory_pages"))
        TRY(memory_pages_run(bench, given, most));
    if (!is_over(bench, "memory_touch"))
        TRY(memory_touch_run(bench, memory_bench_size(bench, MEMORY_WRITE, 2, given).bytes, most));
    if (!is_over(bench, "memory_numa"))
        TRY(memory_numa_run(bench, given));
    return is_over(bench, "memory_affinity") ? ERR_NONE : memory_affinity_run(bench, given);
}

static int memory_bench_run(struct memory_bench *bench)
{
    if (bench->device && strcmp(bench->device, "cpu") != 0)
        return memory_device_bench(bench);
    TRY(selection_complete(bench));
    const struct bench_options *options = &bench->options;
    if (!options->json)
        printf("GB/s of bytes read and written: median of %zu runs (10 %% to 90 %%) and baseline; all data verified\n",
               options->repeat);
    for (size_t s = 0; s < options->size_count; s++)
        TRY(size_run(bench, options->sizes[s]));
    return ERR_NONE;
}

static int memory_main(int argc, const char **argv)
{
    struct memory_bench bench = {0};
    const struct poptOption own[] = {
        {"operation", '\0', POPT_ARG_STRING, &bench.operation, 0,
         "measure this operation only; --sizes are bytes of an array (by the caches)", "copy|read|write|adam_mix"},
        {"device", '\0', POPT_ARG_STRING, &bench.device, 0, "where the arrays are (cpu)", "cpu|cuda"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_memory, own, &bench.options);
    if (code == ERR_NONE && !bench.options.help) {
        code = memory_nodes_open(&bench.nodes);
        if (code == ERR_NONE)
            code = memory_bench_run(&bench);
        memory_nodes_close(&bench.nodes);
    }
    bench_release(&bench.options, own);
    return bench_exit("memory", code);
}
