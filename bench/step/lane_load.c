// SPDX-License-Identifier: Apache-2.0
#include "bench/step/lane_load.h"

#include "ref/arithmetic/accelerator.h"
#include "bench/adam/adam_case.h"
#include "bench/comm/comm_ranks.h"
#include "base/err.h"
#include "ref/executor/executor.h"
#include "bench/step/lane_work.h"
#include "bench/harness/nvme_stream.h"

#include <stdlib.h>

enum {
    PARAMS = 4 << 20,
    UPDATE_BYTES = 28,  // per parameter: four arrays read, three written
    REDUCED_BYTES = 16 << 20,
    CALLS = 4,
    FILE_BYTES = 128 << 20,
    REQUEST_BYTES = 1 << 20,
    DEPTH = 32,
    RANKS = 2,
};

// Each lane uses some of these.
struct lane_load {
    enum lane lane;
    struct executor *executor;  // for LANE_EXECUTED; null for storage
    struct emulation emulation;
    struct lane_compute compute;
    struct adam_arrays arrays;  // cpu
    struct adam_step step;
    uint64_t step_count;
    struct bench_device device;  // collective and copies
    int rank;
    struct comm_ranks *ranks;  // collective
    struct lane_copy copy;     // copies
    size_t copy_bytes;
    struct nvme_files files;  // storage
    uint64_t written_bytes;   // by the last run
};

const char *lane_load_unit(enum lane lane)
{
    return lane == LANE_COMPUTE ? "GFLOP/s" : "GB/s";
}

static int compute_open(struct lane_load *load)
{
    return lane_compute_open(&load->compute);
}

static int compute_run(struct lane_load *load)
{
    lane_compute_run(&load->compute);
    return ERR_NONE;
}

static int compute_check(struct lane_load *load)
{
    return lane_compute_check(&load->compute);
}

static int cpu_open(struct lane_load *load)
{
    const struct adam_case of = {&adam_variants[0], recipe_at(0), isa_now(), PARAMS, 1};
    TRY(adam_arrays_open(of.count, of.threads, &load->arrays));
    adam_arrays_fill(&load->arrays, DTYPE_FP32);
    return adam_case_step(&of, &load->arrays, &load->step);
}

static int cpu_run(struct lane_load *load)
{
    adam_update(&load->step);
    load->step_count++;
    return ERR_NONE;
}

static int cpu_check(struct lane_load *load)
{
    return adam_arrays_check(&load->arrays, &load->step, load->step_count);
}

static int collective_open(struct lane_load *load)
{
    const struct comm_setting setting = {
        .device = &load->device, .operation = REDUCE_SCATTER, .world = RANKS, .count = REDUCED_BYTES / sizeof(float)};
    load->ranks = calloc(1, sizeof *load->ranks);
    if (!load->ranks)
        return err_set(ERR_MEMORY, "no memory for ranks");
    int code = comm_ranks_open(&setting, load->ranks);
    if (code != ERR_NONE) {
        free(load->ranks);
        load->ranks = NULL;
        return code;
    }
    load->ranks->calls = CALLS;
    return ERR_NONE;
}

// Makes the calling thread rank 0, and copies once, because a thread's first copy on an accelerator takes longer.
static int collective_enter(struct lane_load *load)
{
    const struct comm_rank *rank = &load->ranks->ranks[0];
    TRY(bench_device_enter(&load->device, rank->index));
    return rank->stage ? bytes_copy(rank->stage, rank->recv, sizeof(float)) : ERR_NONE;
}

static int collective_run(struct lane_load *load)
{
    // The other ranks wait. Only the last result is verified, untimed.
    for (int rank = 0; rank < RANKS; rank++)
        load->ranks->ranks[rank].has_result = false;
    TRY(comm_ranks_prepare(load->ranks, TASK_COLLECTIVE, false));
    return comm_ranks_repeat(load->ranks);
}

static int collective_check(struct lane_load *load)
{
    TRY(collective_enter(load));
    // Verifies the last result, and repeats the collective in poisoned memory.
    TRY(comm_ranks_prepare(load->ranks, TASK_COLLECTIVE, true));
    TRY(comm_ranks_repeat(load->ranks));
    size_t wrong = 0;
    for (int rank = 0; rank < RANKS; rank++)
        wrong += load->ranks->ranks[rank].wrong_count;
    return wrong == 0 ? ERR_NONE : err_set(ERR_CHECK, "a reduce-scatter left %zu wrong elements", wrong);
}

static int copy_open(struct lane_load *load)
{
    load->copy = (struct lane_copy){.device = load->device, .rank = load->rank, .to_device = load->lane == LANE_H2D};
    return lane_copy_open(load->copy_bytes, &load->copy);
}

static int copy_enter(struct lane_load *load)
{
    return lane_copy_enter(&load->copy);
}

static int copy_run(struct lane_load *load)
{
    return lane_copy_run(&load->copy);
}

static int copy_check(struct lane_load *load)
{
    return lane_copy_check(&load->copy);
}

static int storage_open(struct lane_load *load, const struct bench_storage *storage)
{
    TRY(nvme_files_open(storage->paths, 1, FILE_BYTES, storage->buffered, &load->files));
    return stream_all(&load->files, STREAM_WRITE);
}

// Data is verified as it is read; written data is read back by lane_load_check.
static int storage_run(struct lane_load *load, enum lane_way way, double seconds, struct lane_done *out)
{
    struct stream_result result;
    const struct stream stream = {.files = &load->files,
                                  .engine = NVME_LIBAIO,
                                  .direction = load->lane == LANE_NVME_READ ? STREAM_READ : STREAM_WRITE,
                                  .block_bytes = REQUEST_BYTES,
                                  .depth = DEPTH,
                                  .seconds = seconds,
                                  .emulation = way == LANE_EXECUTED ? &load->emulation : NULL};
    TRY(stream_run(&stream, &result));
    free(result.latencies_ns);
    load->written_bytes = result.bytes;
    *out = (struct lane_done){(double)result.bytes, result.ns};
    return ERR_NONE;
}

static const struct {
    int (*open)(struct lane_load *load);
    int (*enter)(struct lane_load *load);  // prepares the running thread, untimed; null: nothing to do
    int (*run)(struct lane_load *load);    // one piece of work, some milliseconds
    double items;                          // per piece; 0: the bytes of a copy's piece
    int (*check)(struct lane_load *load);  // verifies the last results
} kinds[LANE_COUNT] = {
    [LANE_COMPUTE] = {compute_open, NULL, compute_run, LANE_COMPUTE_FLOPS, compute_check},
    [LANE_CPU] = {cpu_open, NULL, cpu_run, (double)UPDATE_BYTES *PARAMS, cpu_check},
    [LANE_COLLECTIVE] = {collective_open, collective_enter, collective_run,
                         (double)CALLS *REDUCED_BYTES *(RANKS - 1) / RANKS, collective_check},
    [LANE_H2D] = {copy_open, copy_enter, copy_run, 0, copy_check},
    [LANE_D2H] = {copy_open, copy_enter, copy_run, 0, copy_check},
};

static int open_executor(struct lane_load *load)
{
    TRY(executor_open((struct executor_schedule){EXECUTOR_SERIAL, 0}, 0, NULL, NULL, NULL, &load->executor));
    executor_emulate(load->executor, load->emulation.bytes_per_s);
    return kinds[load->lane].open(load);
}

int lane_load_open(enum lane lane, const struct lane_load_setting *setting, struct lane_load **out)
{
    *out = NULL;
    struct lane_load *load = calloc(1, sizeof *load);
    if (!load)
        return err_set(ERR_MEMORY, "no memory for a lane");
    load->lane = lane;
    if (setting->emulation)
        load->emulation = *setting->emulation;
    if (setting->device)
        load->device = *setting->device;
    load->rank = setting->rank;
    load->copy_bytes = setting->copy_bytes;
    int code = kinds[lane].open ? open_executor(load) : storage_open(load, setting->storage);
    if (code == ERR_NONE)
        *out = load;
    else
        lane_load_close(load);
    return code;
}

void lane_load_close(struct lane_load *load)
{
    if (!load)
        return;
    executor_close(load->executor);
    size_t wrong;
    lane_compute_close(&load->compute);
    adam_arrays_close(&load->arrays);
    if (load->ranks) {
        (void)bench_device_enter(&load->device, 0);
        comm_ranks_close(load->ranks, &wrong);
    }
    free(load->ranks);
    lane_copy_close(&load->copy);
    nvme_files_close(&load->files);
    free(load);
}

static double items_of(const struct lane_load *load)
{
    double items = kinds[load->lane].items;
    return items > 0 ? items : (double)load->copy.piece_bytes;
}

static int run_operation(void *arguments)
{
    struct lane_load *load = *(struct lane_load **)arguments;
    return kinds[load->lane].run(load);
}

// Issues one piece of work as an operation.
static int execute(struct lane_load *load)
{
    return executor_issue(load->executor, &(struct executor_operation){.name = "load",
                                                                       .lane = load->lane,
                                                                       .run = run_operation,
                                                                       .arguments = &load,
                                                                       .arguments_bytes = sizeof(struct lane_load *),
                                                                       .bytes = (size_t)items_of(load)});
}

int lane_load_warm(struct lane_load *load)
{
    if (kinds[load->lane].enter)
        TRY(kinds[load->lane].enter(load));
    size_t pieces = load->copy.piece_bytes > 0 ? load->copy.buffer_bytes / load->copy.piece_bytes : 1;
    for (size_t i = 0; kinds[load->lane].run && i < pieces; i++)
        TRY(kinds[load->lane].run(load));
    return ERR_NONE;
}

int lane_load_run(struct lane_load *load, enum lane_way way, double seconds, struct lane_done *out)
{
    if (!kinds[load->lane].run)
        return storage_run(load, way, seconds, out);
    *out = (struct lane_done){0};
    uint64_t begin_ns = clock_now_ns(), now_ns = begin_ns;
    do {
        TRY(way == LANE_EXECUTED ? execute(load) : kinds[load->lane].run(load));
        out->items += items_of(load);
        now_ns = clock_now_ns();
    } while ((double)(now_ns - begin_ns) < seconds * 1e9);
    out->ns = now_ns - begin_ns;
    return ERR_NONE;
}

int lane_load_check(struct lane_load *load)
{
    if (kinds[load->lane].check)
        return kinds[load->lane].check(load);
    return load->lane == LANE_NVME_WRITE ? stream_read_back(&load->files, load->written_bytes, REQUEST_BYTES)
                                         : ERR_NONE;
}
