// SPDX-License-Identifier: Apache-2.0
// Measures one case of `bench comm`: chooses its baseline and the calls per repetition, and verifies every result.
#include "bench/comm/comm_case.h"

#include "base/err.h"
#include "bench/comm/native_collective.h"

#include <stdlib.h>

// The largest result of which the elements with other bits are counted: both are copied to the host.
enum { ORDER_MAX_BYTES = 256 << 20 };

enum {
    CALLS_MAX = 4096,  // per repetition
    TRIALS = 5,
    SMALL_BYTES = 64 << 10,         // below, a barrier takes a visible share of the time
    DEVICE_SMALL_BYTES = 32 << 20,  // a GPU copies this in a few microseconds, as long as it takes to wait for it
};

struct work {
    struct comm_ranks *ranks;
    enum task task;
};

static int work_prepare(void *context)
{
    const struct work *work = context;
    return comm_ranks_prepare(work->ranks, work->task, false);
}

static int work_run(void *context)
{
    const struct work *work = context;
    return comm_ranks_repeat(work->ranks);
}

static struct bench_work work_of(struct work *work, const char *name)
{
    return (struct bench_work){.name = name, .run = work_run, .prepare = work_prepare, .context = work};
}

static int poisoned_repetition(struct comm_ranks *ranks)
{
    TRY(comm_ranks_prepare(ranks, TASK_COLLECTIVE, true));
    return comm_ranks_repeat(ranks);
}

int comm_case_choose_calls(struct comm *comm, const struct bench_work *work, size_t *calls)
{
    while (*calls < CALLS_MAX) {
        uint64_t ns, least_ns = UINT64_MAX;
        for (int trial = 0; trial < TRIALS && least_ns >= BENCH_SAMPLE_NS; trial++) {
            TRY(bench_time(work, &ns));
            TRY(comm ? comm_broadcast(comm, &ns, sizeof ns, 0) : ERR_NONE);
            least_ns = ns < least_ns ? ns : least_ns;
        }
        if (least_ns >= BENCH_SAMPLE_NS)
            break;
        *calls *= 2;
    }
    return ERR_NONE;
}

// In place there is one call per repetition, because it changes the input of the next.
static int choose_calls(struct comm_ranks *ranks, const struct bench_work *work)
{
    return ranks->setting.in_place ? ERR_NONE : comm_case_choose_calls(ranks->setting.comm, work, &ranks->calls);
}

// Measures against the library's own collective, whose results are verified, too.
static int measure_processes(struct comm_ranks *ranks, const struct bench_options *options,
                             struct bench_samples *samples, struct bench_samples *baselines)
{
    struct work collective = {ranks, TASK_COLLECTIVE}, native = {ranks, TASK_NATIVE};
    struct bench_work work = work_of(&collective, "collective"), native_work = work_of(&native, "the library's own");
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    TRY(bench_alternate(&work, &native_work, options->warmup, options->repeat, (double)ranks->calls, samples,
                        baselines));
    TRY(comm_ranks_prepare(ranks, TASK_NATIVE, true));
    TRY(comm_ranks_repeat(ranks));
    return poisoned_repetition(ranks);
}

// Measures the library's own collective in a CUDA graph, in turn with the same calls one by one. A result of the graph
// in poisoned memory is verified, too.
static int measure_graph(struct comm_ranks *ranks, const struct bench_options *options, struct comm_found *found)
{
    struct work graph = {ranks, TASK_GRAPH}, native = {ranks, TASK_NATIVE};
    struct bench_work work = work_of(&graph, "a graph"), native_work = work_of(&native, "the library's own");
    TRY(comm_ranks_open_graph(ranks));
    found->graph_calls = ranks->ranks[0].graph_calls;
    TRY(bench_alternate(&work, &native_work, options->warmup, options->repeat, (double)ranks->calls, &found->in_graph,
                        &found->called));
    TRY(comm_ranks_prepare(ranks, TASK_GRAPH, true));
    return comm_ranks_repeat(ranks);
}

// Measures against copies on the device. For small buffers each copy follows a barrier, which on a device waits for the
// copies before it.
static int measure_on_device(struct comm_ranks *ranks, const struct bench_options *options,
                             struct bench_samples *samples, struct bench_samples *baselines, const char **baseline_name)
{
    bool small = ranks->setting.count * dtype_bytes(ranks->setting.dtype) < DEVICE_SMALL_BYTES;
    struct work collective = {ranks, TASK_COLLECTIVE}, copies = {ranks, small ? TASK_MEET_AND_COPY : TASK_COPY};
    struct bench_work work = work_of(&collective, "collective");
    struct bench_work baseline =
        work_of(&copies, small ? "a barrier and copies on the device" : "copies on the device");
    *baseline_name = baseline.name;
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    TRY(bench_alternate(&work, &baseline, options->warmup, options->repeat, (double)ranks->calls, samples, baselines));
    return poisoned_repetition(ranks);
}

// Measures against the faster of memcpy and non-temporal copies, chosen by trial; for small buffers against a barrier
// and memcpy.
static int measure_on_host(struct comm_ranks *ranks, const struct bench_options *options, struct bench_samples *samples,
                           struct bench_samples *baselines, const char **baseline_name)
{
    struct work collective = {ranks, TASK_COLLECTIVE}, plain = {ranks, TASK_COPY};
    struct work around = {ranks, TASK_COPY_AROUND_CACHE}, meet = {ranks, TASK_MEET_AND_COPY};
    struct bench_work work = work_of(&collective, "collective"), memcpy_work = work_of(&plain, "memcpy");
    struct bench_work around_work = work_of(&around, "copy around the caches");
    struct bench_work meet_work = work_of(&meet, "a line from each rank and memcpy");
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    double calls = (double)ranks->calls;
    TRY(bench_alternate(&memcpy_work, &around_work, 1, TRIALS, calls, samples, baselines));
    bool small = ranks->setting.count * dtype_bytes(ranks->setting.dtype) < SMALL_BYTES;
    bool around_is_faster = bench_quantile(baselines, 0) < bench_quantile(samples, 0);
    const struct bench_work *baseline = small ? &meet_work : around_is_faster ? &around_work : &memcpy_work;
    *baseline_name = baseline->name;
    TRY(bench_alternate(&work, baseline, options->warmup, options->repeat, calls, samples, baselines));
    return poisoned_repetition(ranks);
}

// Every result is verified. The first and the last are written to poisoned memory, so that missing elements show.
static int measure(struct comm_ranks *ranks, const struct bench_options *options, struct comm_found *found)
{
    const struct comm_setting *setting = &ranks->setting;
    if (setting->comm) {
        found->baseline_name = setting->device ? nccl_collective_library(setting->comm) : mpi_collective_library();
        return measure_processes(ranks, options, &found->samples, &found->baselines);
    }
    return (setting->device ? measure_on_device : measure_on_host)(ranks, options, &found->samples, &found->baselines,
                                                                   &found->baseline_name);
}

static int case_measure(struct comm_ranks *ranks, const struct bench_options *options, struct comm_found *found)
{
    enum operation operation = ranks->setting.operation;
    size_t result_bytes = comm_rank_result_count(&ranks->ranks[0]) * dtype_bytes(ranks->setting.dtype);
    TRY(measure(ranks, options, found));
    bool is_plain = !ranks->setting.in_place && !ranks->setting.uneven;
    if (ranks->setting.comm && is_plain && nccl_graph_is_possible(ranks->setting.comm))
        TRY(measure_graph(ranks, options, found));
    found->has_other_bits = ranks->setting.comm && !ranks->setting.in_place && result_bytes <= ORDER_MAX_BYTES &&
                            (operation == REDUCE_SCATTER || operation == ALL_REDUCE);
    if (!found->has_other_bits)
        return ERR_NONE;
    // Verify the last repetition before its result is overwritten.
    TRY(comm_ranks_prepare(ranks, TASK_COLLECTIVE, false));
    return comm_ranks_count_other_bits(ranks, &found->other_bits);
}

int comm_case_free_bytes(struct comm *comm, const struct bench_device *device, uint64_t *least)
{
    *least = device ? bench_device_free_bytes(device) : SIZE_MAX;
    if (!comm)
        return ERR_NONE;
    int world = comm_world(comm);
    uint64_t *all = calloc((size_t)world, sizeof *all);
    int code = all ? comm_all_gather_equal(comm, least, all, sizeof *least)
                   : err_set(ERR_MEMORY, "no memory for %d numbers", world);
    for (int rank = 0; rank < world && code == ERR_NONE; rank++)
        *least = all[rank] < *least ? all[rank] : *least;
    free(all);
    return code;
}

int comm_case_run(const struct bench_options *options, const struct comm_setting *setting)
{
    const char *name = comm_ranks_operation_name(setting->operation);
    bench_progress("comm %s, %zu bytes, %d ranks", name, setting->count * dtype_bytes(setting->dtype), setting->world);
    struct comm_ranks ranks;
    struct comm_found found = {.begin_ns = clock_now_ns()};
    size_t wrong_count, needs_bytes = comm_ranks_device_bytes(setting);
    uint64_t free_bytes;
    TRY(comm_case_free_bytes(setting->comm, setting->device, &free_bytes));
    if (needs_bytes > free_bytes)
        return bench_skip_memory(options, "comm", comm_case_json(setting, "canonical"), needs_bytes, free_bytes);
    TRY(comm_ranks_open(setting, &ranks));
    int measured = case_measure(&ranks, options, &found);
    found.bus_bytes = comm_ranks_bus_bytes(&ranks);
    int closed = comm_ranks_close(&ranks, &wrong_count);
    if (measured != ERR_NONE || closed != ERR_NONE)
        return measured != ERR_NONE ? measured : closed;
    if (wrong_count > 0)
        return err_set(ERR_CHECK, "%s of %zu bytes among %d ranks left %zu wrong elements", name,
                       ranks.setting.count * dtype_bytes(setting->dtype), setting->world, wrong_count);
    return comm_print(options, &ranks, &found);
}
