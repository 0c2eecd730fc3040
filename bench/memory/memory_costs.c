// SPDX-License-Identifier: Apache-2.0
// What small pages, another NUMA node and the first touch cost.

#include "base/err.h"
#include "bench/memory/memory_bench.h"

#include <stdio.h>
#include <string.h>

// Measures an operation in 4 KiB pages, against huge pages. *has_huge: the system provides them.
static int page_run(struct memory_bench *bench, enum memory_operation operation, size_t given, int threads,
                    bool *has_huge)
{
    struct memory_arrays small, huge = {0};
    struct memory_size size = memory_bench_size(bench, operation, 2, given);
    size_t count = size.bytes / sizeof(memory_word), huge_bytes = 0;
    int checking = bench_thread_count(), first = operation == MEMORY_WRITE ? MEMORY_ARRAY_COUNT - 1 : 0;
    enum memory_way way = memory_own_way(operation, size.in_cache);
    TRY(memory_arrays_open(operation, count, threads, checking, false, &small));
    int code = memory_arrays_open(operation, count, threads, checking, true, &huge);
    if (code == ERR_NONE)
        huge_bytes = bench_huge_bytes(huge.arrays[first], size.bytes);
    *has_huge = huge_bytes > 0;
    struct memory_pair pair = {.name = "memory_pages",
                               .baseline_name = "in huge pages",
                               .work = {.arrays = &small, .way = way, .threads = threads},
                               .baseline = {.arrays = &huge, .way = way, .threads = threads},
                               .in_cache = size.in_cache,
                               .description = json_pack("{s:s}", "pages", "4 KiB"),
                               .huge_share = (double)huge_bytes / (double)size.bytes};
    if (code == ERR_NONE && *has_huge)
        code = memory_pair_measure(bench, &pair);
    else
        json_decref(pair.description);
    memory_arrays_close(&small);
    memory_arrays_close(&huge);
    return code;
}

int memory_pages_run(struct memory_bench *bench, size_t given, int threads)
{
    for (int operation = 0; operation < MEMORY_OPERATION_COUNT; operation++) {
        bool has_huge;
        if (!memory_bench_wants(bench, operation))
            continue;
        TRY(page_run(bench, (enum memory_operation)operation, given, threads, &has_huge));
        if (!has_huge)
            return bench_skip("memory_pages: this system provides no huge pages "
                              "(/sys/kernel/mm/transparent_hugepage/enabled)");
    }
    return ERR_NONE;
}

// Measures threads of one node on arrays that threads of another node touched first.
static int node_pair_run(struct memory_bench *bench, enum memory_operation operation, size_t given, int node,
                         int memory_node)
{
    struct memory_arrays here = {0}, there = {0};
    struct memory_size size = memory_bench_size(bench, operation, 2, given);
    int threads = memory_nodes_threads(&bench->nodes, node),
        first = operation == MEMORY_WRITE ? MEMORY_ARRAY_COUNT - 1 : 0;
    size_t count = size.bytes / sizeof(memory_word);
    TRY(memory_nodes_bind(&bench->nodes, memory_node, threads));
    int code = memory_arrays_open(operation, count, threads, threads, true, &there);
    if (code == ERR_NONE)
        code = memory_nodes_check(&bench->nodes, memory_node, there.arrays[first], size.bytes);
    if (code == ERR_NONE)
        code = memory_nodes_bind(&bench->nodes, node, threads);
    if (code == ERR_NONE)
        code = memory_arrays_open(operation, count, threads, threads, true, &here);
    enum memory_way way = memory_own_way(operation, size.in_cache);
    struct memory_pair pair = {.name = "memory_numa",
                               .baseline_name = "on its own node",
                               .work = {.arrays = &there, .way = way, .threads = threads},
                               .baseline = {.arrays = &here, .way = way, .threads = threads},
                               .in_cache = size.in_cache};
    if (code == ERR_NONE) {
        pair.description = json_pack("{s:i, s:i}", "node", memory_nodes_number(&bench->nodes, node), "memory_node",
                                     memory_nodes_number(&bench->nodes, memory_node));
        code = memory_pair_measure(bench, &pair);
    }
    memory_arrays_close(&here);
    memory_arrays_close(&there);
    int back = memory_nodes_bind(&bench->nodes, -1, threads);
    return code != ERR_NONE ? code : back;
}

bool memory_bench_wants_nodes(const struct memory_bench *bench, int node, int memory_node)
{
    return node != memory_node && (!bench->options.quick || node + memory_node == 1);
}

int memory_numa_run(struct memory_bench *bench, size_t given)
{
    int nodes = bench->nodes.count;
    if (nodes < 2)
        return bench_skip("memory_numa: this process may use the processors of %d NUMA node%s only", nodes,
                          nodes == 1 ? "" : "s");
    for (int node = 0; node < nodes; node++)
        for (int memory_node = 0; memory_node < nodes; memory_node++)
            for (int operation = 0; operation < MEMORY_OPERATION_COUNT; operation++)
                if (memory_bench_wants_nodes(bench, node, memory_node) && memory_bench_wants(bench, operation))
                    TRY(node_pair_run(bench, (enum memory_operation)operation, given, node, memory_node));
    return ERR_NONE;
}

// The first touch: memset over fresh memory, whose pages the system must provide, against memset over touched memory.
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
