// SPDX-License-Identifier: Apache-2.0
// Measures and verifies the rows of `bench comm --nccl`.
#include "bench/comm/nccl_rows.h"

#include "base/err.h"
#include "bench/comm/comm_case.h"
#include "bench/comm/native_collective.h"
#include "bench/harness/bench_world.h"
#include "ref/comm/comm_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Every rank's elements that were wrong, and the first of them.
struct wrong {
    uint64_t count, index, found, expected;
};

struct row {
    const struct nccl_choice *choice;
    struct nccl_call call;
    size_t asked_bytes;
    char *send, *recv, *stage;  // stage: of COMM_STAGE_COUNT elements on the host
    size_t calls, graph_calls;  // in a repetition, and in the graph
    struct CUgraphExec_st *graph;
    struct wrong wrong;
    bool has_result;
    uint64_t begin_ns;
    struct bench_samples called, in_graph;
};

enum { VERIFIED_BYTES = 256 << 20 };  // of larger results only the first and the last are compared, all others too

static int world_of(const struct row *row)
{
    return row->choice->comm->world;
}

static int rank_of(const struct row *row)
{
    return row->choice->comm->rank;
}

static size_t unit_of(const struct row *row)
{
    return nccl_type_bytes(row->call.type);
}

enum values { SENT, POISON };

// Fills send, or recv with what each element must not be.
static int fill(const struct row *row, enum values values, char *to, size_t count)
{
    size_t unit = unit_of(row);
    for (size_t from = 0; from < count; from += COMM_STAGE_COUNT) {
        size_t piece = count - from < COMM_STAGE_COUNT ? count - from : COMM_STAGE_COUNT;
        for (size_t i = 0; i < piece; i++) {
            uint64_t bits = values == SENT ? nccl_sent(&row->call, world_of(row), rank_of(row), from + i)
                                           : ~nccl_expected(&row->call, world_of(row), rank_of(row), from + i);
            memcpy(row->stage + i * unit, &bits, unit);  // little-endian, as all machines that have NCCL
        }
        TRY(bytes_copy(to + from * unit, row->stage, piece * unit));
    }
    return ERR_NONE;
}

static size_t result_count(const struct row *row)
{
    return nccl_recv_count(&row->call, world_of(row), rank_of(row));
}

static int compare(struct row *row)
{
    size_t unit = unit_of(row), count = result_count(row);
    for (size_t from = 0; from < count; from += COMM_STAGE_COUNT) {
        size_t piece = count - from < COMM_STAGE_COUNT ? count - from : COMM_STAGE_COUNT;
        TRY(bytes_copy(row->stage, row->recv + from * unit, piece * unit));
        for (size_t i = 0; i < piece; i++) {
            uint64_t found = 0, expected = nccl_expected(&row->call, world_of(row), rank_of(row), from + i);
            memcpy(&found, row->stage + i * unit, unit);
            if (found != expected && row->wrong.count++ == 0)
                row->wrong = (struct wrong){1, from + i, found, expected};
        }
    }
    return ERR_NONE;
}

static int prepare(void *context)
{
    struct row *row = context;
    if (row->has_result && result_count(row) * unit_of(row) <= VERIFIED_BYTES)
        TRY(compare(row));
    return comm_barrier(row->choice->comm);
}

static int call_all(void *context)
{
    struct row *row = context;
    TRY(comm_barrier(row->choice->comm));
    for (size_t call = 0; call < row->calls; call++)
        TRY(nccl_call_run(row->choice->comm, &row->call));
    row->has_result = true;
    return comm_barrier(row->choice->comm);
}

static int launch_all(void *context)
{
    struct row *row = context;
    TRY(comm_barrier(row->choice->comm));
    for (size_t done = 0; done < row->calls; done += row->graph_calls)
        TRY(nccl_graph_run(row->choice->comm, row->graph));
    row->has_result = true;
    return comm_barrier(row->choice->comm);
}

// One repetition to memory in which every element is wrong.
static int verified_repetition(struct row *row, int (*run)(void *))
{
    TRY(fill(row, POISON, row->recv, result_count(row)));
    TRY(run(row));
    TRY(compare(row));
    row->has_result = false;
    return ERR_NONE;
}

static int measure(struct row *row, const struct bench_options *options)
{
    const struct bench_work called = {"called", call_all, prepare, row}, graph = {"a graph", launch_all, prepare, row};
    struct comm *comm = row->choice->comm;
    TRY(fill(row, SENT, row->send, nccl_send_count(&row->call, world_of(row), rank_of(row))));
    TRY(verified_repetition(row, call_all));
    TRY(comm_case_choose_calls(comm, &called, &row->calls));
    row->graph_calls = row->calls < COMM_GRAPH_CALLS ? row->calls : COMM_GRAPH_CALLS;
    TRY(nccl_graph_open(comm, nccl_call_enqueue, &row->call, row->graph_calls, &row->graph));
    TRY(verified_repetition(row, launch_all));
    TRY(bench_alternate(&graph, &called, options->warmup, options->repeat, (double)row->calls, &row->in_graph,
                        &row->called));
    TRY(prepare(row));
    TRY(verified_repetition(row, launch_all));
    return verified_repetition(row, call_all);
}

// Fails on every rank if any has a wrong element.
static int agree(const struct row *row)
{
    const struct nccl_call *call = &row->call;
    struct wrong *all = calloc((size_t)world_of(row), sizeof *all);
    int code = all ? comm_all_gather_equal(row->choice->comm, &row->wrong, all, sizeof *all)
                   : err_set(ERR_MEMORY, "no memory for %d ranks", world_of(row));
    for (int rank = 0; rank < world_of(row) && code == ERR_NONE; rank++)
        if (all[rank].count > 0)
            code = err_set(ERR_CHECK,
                           "NCCL's %s of %zu elements of %s%s%s: rank %d has %" PRIu64 " wrong, first element %" PRIu64
                           ", 0x%" PRIx64 " and not 0x%" PRIx64,
                           nccl_operation_name(call->operation), call->count, nccl_type_name(call->type),
                           nccl_reduces(call->operation) ? ", " : "",
                           nccl_reduces(call->operation) ? nccl_reduction_name(call->reduction) : "", rank,
                           all[rank].count, all[rank].index, all[rank].found, all[rank].expected);
    free(all);
    return code;
}

static json_t *case_json(const struct row *row, bool graph)
{
    const struct nccl_call *call = &row->call;
    json_t *of_case = json_pack(
        "{s:s, s:s, s:i, s:s, s:s*, s:I, s:I, s:b}", "transport", "nccl", "operation",
        nccl_operation_name(call->operation), "world", world_of(row), "dtype", nccl_type_name(call->type), "reduction",
        nccl_reduces(call->operation) ? nccl_reduction_name(call->reduction) : NULL, "asked_bytes",
        (json_int_t)row->asked_bytes, "buffer_bytes", (json_int_t)(call->count * unit_of(row)), "graph", graph);
    if (of_case) {
        struct bench_device device = *row->choice->device;
        device.count = world_of(row);
        bench_device_describe(&device, of_case);
    }
    return of_case;
}

static int print(const struct bench_options *options, const struct row *row, bool graph)
{
    const struct bench_samples *samples = graph ? &row->in_graph : &row->called;
    double bytes = (double)(row->call.count * unit_of(row)), median = bench_median(samples);
    double bus = bytes * nccl_bus_factor(row->call.operation, world_of(row));
    char text[256];
    snprintf(text, sizeof text, "%-14s %-8s %-9s %-6s %11.0f %10.2f %10.2f %10.2f %9.2f %9.2f",
             nccl_operation_name(row->call.operation), nccl_type_name(row->call.type),
             nccl_reduces(row->call.operation) ? nccl_reduction_name(row->call.reduction) : "-",
             graph ? "graph" : "called", bytes, median / 1e3, bench_quantile(samples, 0.1) / 1e3,
             bench_quantile(samples, 0.9) / 1e3, bytes / median, bus / median);
    struct bench_record record = {
        .name = "comm_nccl",
        .description = case_json(row, graph),
        .detail = json_pack("{s:s, s:f, s:f, s:f, s:i, s:I}", "library", nccl_collective_library(row->choice->comm),
                            "bus_bytes", bus, "algorithm_gb_per_s", bytes / median, "bus_gb_per_s", bus / median,
                            "wrong", 0, "calls_a_graph", (json_int_t)(graph ? row->graph_calls : 0)),
        .unit = "ns",
        .lower_is_better = true,
        .items = (double)row->calls,
        .begin_ns = row->begin_ns,
        .samples = samples,
        .baseline_name = "called",
        .baseline = graph ? &row->called : NULL,
        .row = text};
    return bench_print(options, &record);
}

static int open_memory(struct row *row)
{
    const struct bench_device *device = row->choice->device;
    size_t bytes = row->call.count * unit_of(row);
    void *send, *recv, *stage;
    TRY(bench_device_alloc(device, bytes, &send));
    row->call.send = row->send = send;
    TRY(bench_device_alloc(device, bytes, &recv));
    row->call.recv = row->recv = recv;
    TRY(bench_device_alloc_host(device, COMM_STAGE_COUNT * unit_of(row), &stage));
    row->stage = stage;
    return ERR_NONE;
}

static int run_row(const struct bench_options *options, struct row *row)
{
    const struct bench_device *device = row->choice->device;
    size_t bytes = row->call.count * unit_of(row);
    uint64_t free_bytes;
    bench_progress("comm: NCCL's %s of %s, %zu bytes", nccl_operation_name(row->call.operation),
                   nccl_type_name(row->call.type), bytes);
    TRY(comm_case_free_bytes(row->choice->comm, device, &free_bytes));
    if (2 * bytes > free_bytes)
        return bench_skip_memory(options, "comm_nccl", case_json(row, false), 2 * bytes, free_bytes);
    row->begin_ns = clock_now_ns();
    int code = open_memory(row);
    if (code == ERR_NONE)
        code = measure(row, options);
    if (code == ERR_NONE)
        code = agree(row);
    nccl_graph_close(row->graph);
    bench_device_free(device, row->send, bytes);
    bench_device_free(device, row->recv, bytes);
    bench_device_free_host(device, row->stage, COMM_STAGE_COUNT * unit_of(row));
    TRY(code);
    TRY(print(options, row, false));
    return print(options, row, true);
}

// One operation, type and reduction in each size. What reduces nothing is measured with the first reduction alone.
static int run_sizes(const struct bench_options *options, const struct nccl_choice *choice, struct nccl_call call)
{
    size_t world = (size_t)choice->comm->world, unit = nccl_type_bytes(call.type);
    const char *absent = nccl_call_absent(choice->comm, call.operation, call.type);
    if (!nccl_is_exact(call.operation, call.type, call.reduction, choice->comm->world))
        absent = "with this number of ranks it rounds, and so cannot be verified";
    if (absent)
        return bench_skip("comm: NCCL's %s of %s, %s: %s", nccl_operation_name(call.operation),
                          nccl_type_name(call.type), nccl_reduction_name(call.reduction), absent);
    for (size_t i = 0; i < options->size_count; i++) {
        struct row row = {.choice = choice, .call = call, .asked_bytes = options->sizes[i], .calls = 1};
        size_t shard = options->sizes[i] / unit / world;
        row.call.count = (shard > 0 ? shard : 1) * world;
        TRY(run_row(options, &row));
    }
    return ERR_NONE;
}

static bool is_chosen(int choice, int one)
{
    return choice < 0 || choice == one;
}

int nccl_rows_run(const struct bench_options *options, const struct nccl_choice *choice)
{
    if (!options->json)
        printf("%s, %d ranks, each with a GPU; medians, and in a graph the time of calls in percent of the graph's\n"
               "ratio    %-14s %-8s %-9s %-6s %11s %10s %21s %9s %9s\n",
               nccl_collective_library(choice->comm), choice->comm->world, "operation", "type", "reduction", "",
               "bytes", "us", "(10 % to 90 %)", "alg GB/s", "bus GB/s");
    for (int operation = 0; operation < NCCL_OPERATION_COUNT; operation++)
        for (int type = 0; type < NCCL_TYPE_COUNT && is_chosen(choice->operation, operation); type++)
            for (int reduction = 0; reduction < NCCL_REDUCTION_COUNT && is_chosen(choice->type, type); reduction++)
                if (nccl_reduces(operation) ? is_chosen(choice->reduction, reduction) : reduction == 0)
                    TRY(run_sizes(options, choice, (struct nccl_call){operation, type, reduction, .count = 0}));
    return ERR_NONE;
}

int nccl_choose(const char *option, const char *name, const char *(*name_of)(int), int count, int *out)
{
    char known[256] = "";
    *out = -1;
    if (strcmp(name, "all") == 0)
        return ERR_NONE;
    for (int i = 0; i < count; i++) {
        if (strcmp(name, name_of(i)) == 0)
            *out = i;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s, ", name_of(i));
    }
    return *out >= 0 ? ERR_NONE : err_set(ERR_USAGE, "%s \"%s\": expected %sor all", option, name, known);
}
