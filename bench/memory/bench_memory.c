// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench memory`: the bandwidth of copies, reads, writes and Adam's mix (4 arrays read, 3 of them written) by
// thread count: the rooflines of the other benchmarks. The baseline is the C library (memcpy, memchr, memset; memcpy
// for Adam's mix). Then the cost of 4 KiB pages, of the first touch and of memory on another NUMA node, each against
// the same work without it. With --device cuda the memory is a GPU's (memory_device.h).
//
// GB/s   bytes read plus bytes written by the program, over time: a copy of S bytes moves 2S. Cache lines that the CPU
//        fetches only to overwrite them do not count.
#include "bench/memory/bench_memory.h"

#include "base/err.h"

#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int memory_main(int argc, const char **argv);

const struct benchmark bench_memory = {
    .name = "memory",
    .run = memory_main,
    .uses = BENCH_USES_NOTHING,
    .summary = "copies, reads, writes, Adam's mix: GB/s against libc's",
    .examples = {"zerogauge bench memory --quick", "zerogauge bench memory --threads 1,all --out memory.jsonl",
                 "zerogauge bench memory --device cuda"},
};

// Work and its baseline; `description` has the case's settings besides operation, threads and sizes.
struct pair {
    const char *name, *baseline_name;
    struct memory_work work, baseline;
    json_t *description;
    double huge_share;  // of the baseline's memory; 0: not reported
};

static void row_of(const struct bench_record *record, const struct pair *pair, char *out, size_t bytes)
{
    int at = snprintf(out, bytes, "%-12s %-8s %3d threads %8.2f GB/s (%.2f to %.2f)  %s %.2f", record->name,
                      memory_operation_name(pair->work.operation), pair->work.threads, bench_median(record->samples),
                      bench_quantile(record->samples, 0.1), bench_quantile(record->samples, 0.9), pair->baseline_name,
                      bench_median(record->baseline));
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
    return (double)(work->arrays->count * sizeof(memory_word)) * memory_operation_bytes(work->operation);
}

// Takes ownership of the pair's description.
static int measure(const struct memory_bench *bench, struct pair *pair)
{
    struct bench_samples samples, baselines;
    uint64_t begin_ns = clock_now_ns();
    struct memory_arrays *arrays = pair->work.arrays;
    size_t bytes = arrays->count * sizeof(memory_word);
    const struct bench_work work = {"work", memory_work_run, memory_work_prepare, &pair->work};
    const struct bench_work baseline = {"baseline", memory_work_run, memory_work_prepare, &pair->baseline};
    bench_progress("%s %s, %d threads, arrays of %zu bytes", pair->name, memory_operation_name(pair->work.operation),
                   pair->work.threads, bytes);
    pair->work.past_cache = pair->baseline.past_cache = 2 * bytes > bench->cache_bytes;
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
            json_pack("{s:s, s:i, s:I, s:b}", "operation", memory_operation_name(pair->work.operation), "threads",
                      pair->work.threads, "array_bytes", (json_int_t)bytes, "in_cache", !pair->work.past_cache),
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

bool memory_bench_wants(const struct memory_bench *bench, int operation)
{
    return !bench->operation || strcmp(bench->operation, memory_operation_name((enum memory_operation)operation)) == 0;
}

// Measures the rooflines at one thread count, in huge pages if the system provides them.
static int rates_run(const struct memory_bench *bench, size_t count, int threads)
{
    static const enum memory_operation libc[MEMORY_OWN_COUNT] = {MEMORY_COPY_LIBC, MEMORY_READ_LIBC, MEMORY_WRITE_LIBC,
                                                                 MEMORY_COPY_LIBC};
    struct memory_arrays arrays;
    TRY(memory_arrays_open(count, threads, true, &arrays));
    int code = ERR_NONE;
    for (int operation = 0; operation < MEMORY_OWN_COUNT && code == ERR_NONE; operation++) {
        struct pair pair = {"memory",
                            memory_operation_name(libc[operation]),
                            {.arrays = &arrays, .operation = (enum memory_operation)operation, .threads = threads},
                            {.arrays = &arrays, .operation = libc[operation], .threads = threads},
                            NULL,
                            0};
        if (memory_bench_wants(bench, operation))
            code = measure(bench, &pair);
    }
    memory_arrays_close(&arrays);
    return code;
}

// Measures the operations in 4 KiB pages, against huge pages.
static int pages_run(const struct memory_bench *bench, size_t count, int threads)
{
    struct memory_arrays small, huge = {0};
    TRY(memory_arrays_open(count, threads, false, &small));
    int code = memory_arrays_open(count, threads, true, &huge);
    size_t bytes = count * sizeof(memory_word);
    size_t huge_bytes = code == ERR_NONE ? bench_huge_bytes(huge.arrays[0], bytes) : 0;
    if (code == ERR_NONE && huge_bytes == 0)
        bench_skip("memory_pages: this system provides no huge pages (/sys/kernel/mm/transparent_hugepage/enabled)");
    for (int operation = 0; operation < MEMORY_OWN_COUNT && code == ERR_NONE && huge_bytes > 0; operation++) {
        enum memory_operation what = (enum memory_operation)operation;
        struct pair pair = {"memory_pages",
                            "in huge pages",
                            {.arrays = &small, .operation = what, .threads = threads},
                            {.arrays = &huge, .operation = what, .threads = threads},
                            json_pack("{s:s}", "pages", "4 KiB"),
                            (double)huge_bytes / (double)bytes};
        if (memory_bench_wants(bench, operation))
            code = measure(bench, &pair);
        else
            json_decref(pair.description);
    }
    memory_arrays_close(&small);
    memory_arrays_close(&huge);
    return code;
}

// Measures threads of one node on arrays that threads of another node touched first.
static int node_pair_run(struct memory_bench *bench, size_t count, int node, int memory_node)
{
    struct memory_arrays here = {0}, there = {0};
    int threads = memory_nodes_threads(&bench->nodes, node);
    TRY(memory_nodes_bind(&bench->nodes, memory_node, threads));
    int code = memory_arrays_open(count, threads, true, &there);
    if (code == ERR_NONE)
        code = memory_nodes_check(&bench->nodes, memory_node, there.arrays[0], count * sizeof(memory_word));
    if (code == ERR_NONE)
        code = memory_nodes_bind(&bench->nodes, node, threads);
    if (code == ERR_NONE)
        code = memory_arrays_open(count, threads, true, &here);
    for (int operation = 0; operation < MEMORY_OWN_COUNT && code == ERR_NONE; operation++) {
        enum memory_operation what = (enum memory_operation)operation;
        struct pair pair = {"memory_numa",
                            "on its own node",
                            {.arrays = &there, .operation = what, .threads = threads},
                            {.arrays = &here, .operation = what, .threads = threads},
                            json_pack("{s:i, s:i}", "node", memory_nodes_number(&bench->nodes, node), "memory_node",
                                      memory_nodes_number(&bench->nodes, memory_node)),
                            0};
        if (memory_bench_wants(bench, operation))
            code = measure(bench, &pair);
        else
            json_decref(pair.description);
    }
    memory_arrays_close(&here);
    memory_arrays_close(&there);
    int back = memory_nodes_bind(&bench->nodes, -1, threads);
    return code != ERR_NONE ? code : back;
}

static int nodes_run(struct memory_bench *bench, size_t count)
{
    int nodes = bench->nodes.count;
    if (nodes < 2)
        return bench_skip("memory_numa: this process may use the processors of %d NUMA node%s only", nodes,
                          nodes == 1 ? "" : "s");
    for (int node = 0; node < nodes; node++)
        for (int memory_node = 0; memory_node < nodes; memory_node++)
            if (node != memory_node && (!bench->options.quick || node + memory_node == 1))
                TRY(node_pair_run(bench, count, node, memory_node));
    return ERR_NONE;
}

// Sizes are multiples of the stamps' distance, which is also one of 16-byte loads.
enum { UNIT = MEMORY_STAMP_WORDS * sizeof(memory_word) };

int memory_bench_sizes(struct memory_bench *bench, const size_t *sizes, size_t count)
{
    struct bench_options *options = &bench->options;
    bool known = !bench->operation;
    for (int operation = 0; operation < MEMORY_OWN_COUNT && !known; operation++)
        known = memory_bench_wants(bench, operation);
    if (!known)
        return err_set(ERR_USAGE, "unknown operation '%s'; known are copy, read, write, adam_mix", bench->operation);
    bench_default_sizes(options, sizes, count);
    bench_default_repeat(options, 15, 5, 1);
    for (size_t i = 0; i < options->size_count; i++)
        if (options->sizes[i] % UNIT != 0)
            return err_set(ERR_USAGE, "--sizes %zu: the bytes of an array must be a multiple of %d", options->sizes[i],
                           UNIT);
    return ERR_NONE;
}

static int selection_complete(struct memory_bench *bench)
{
    struct bench_options *options = &bench->options;
    bench->cache_bytes = bench_cache_bytes();
    size_t large = 4 * bench->cache_bytes > (size_t)64 << 20 ? 4 * bench->cache_bytes : (size_t)64 << 20;
    TRY(memory_bench_sizes(bench, &(size_t){large / UNIT * UNIT}, 1));
    if (options->thread_count > 0)
        return ERR_NONE;
    // 1, 2, 4, ... and all; with --quick 1 and all.
    int all = bench_thread_count();
    for (int threads = 1; threads < all && options->thread_count < BENCH_LIST_MAX - 1; threads *= 2)
        if (threads == 1 || !options->quick)
            options->threads[options->thread_count++] = threads;
    options->threads[options->thread_count++] = all;
    return ERR_NONE;
}

static int memory_bench_run(struct memory_bench *bench)
{
    if (bench->device && strcmp(bench->device, "cpu") != 0)
        return memory_device_bench(bench);
    TRY(selection_complete(bench));
    const struct bench_options *options = &bench->options;
    int most = options->threads[options->thread_count - 1];
    if (!options->json)
        printf("GB/s of bytes read and written: median of %zu runs (10 %% to 90 %%) and baseline; all data verified\n",
               options->repeat);
    for (size_t s = 0; s < options->size_count; s++) {
        size_t count = options->sizes[s] / sizeof(memory_word);
        for (size_t t = 0; t < options->thread_count; t++)
            TRY(rates_run(bench, count, options->threads[t]));
        TRY(pages_run(bench, count, most));
        TRY(memory_touch_run(bench, options->sizes[s], most));
        TRY(nodes_run(bench, count));
    }
    return ERR_NONE;
}

static int memory_main(int argc, const char **argv)
{
    struct memory_bench bench = {0};
    const struct poptOption own[] = {
        {"operation", '\0', POPT_ARG_STRING, &bench.operation, 0,
         "measure this operation only; --sizes are bytes of an array (4 times the caches)", "copy|read|write|adam_mix"},
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
    bench_release(&bench.options);
    free(bench.operation);
    free(bench.device);
    return bench_exit("memory", code);
}
