// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_ranks.h"

#include "bench/harness/bench.h"
#include "base/err.h"
#include "ref/comm/mpi_collective.h"
#include "ref/comm/nccl_collective.h"

#include <stdlib.h>

const char *comm_ranks_operation_name(enum operation operation)
{
    static const char *const names[OPERATION_KINDS] = {"reduce-scatter", "all-gather", "all-reduce", "all-to-all",
                                                       "broadcast"};
    return names[operation];
}

bool comm_ranks_has_shards(enum operation operation)
{
    return operation == REDUCE_SCATTER || operation == ALL_GATHER || operation == ALL_TO_ALL;
}

bool comm_ranks_has_in_place(enum operation operation)
{
    return operation == REDUCE_SCATTER || operation == ALL_GATHER || operation == ALL_REDUCE;
}

size_t comm_ranks_recv_count(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t all = (size_t)of->setting.world * of->counts[rank->index];
    return of->setting.operation == ALL_TO_ALL && all > of->setting.count ? all : of->setting.count;
}

double comm_ranks_bus_bytes(const struct comm_ranks *ranks)
{
    size_t whole = ranks->setting.count, most = 0, world = (size_t)ranks->setting.world;
    for (size_t rank = 0; rank < world; rank++) {
        // What is not its own shard; in an all-to-all it may receive more than it sends.
        size_t bytes = whole - ranks->counts[rank], received = (world - 1) * ranks->counts[rank];
        if (ranks->setting.operation == ALL_TO_ALL && received > bytes)
            bytes = received;
        most = bytes > most ? bytes : most;
    }
    if (ranks->setting.operation == BROADCAST)
        return (double)(whole * sizeof(float));
    return (double)(most * sizeof(float)) * (ranks->setting.operation == ALL_REDUCE ? 2 : 1);
}

static int collective(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    bool in_place = of->setting.in_place;
    float *result = comm_rank_result(rank);
    switch (of->setting.operation) {
    case REDUCE_SCATTER:
        return comm_reduce_scatter(rank->comm, rank->send, DTYPE_FP32, result, DTYPE_FP32, of->counts, false);
    case ALL_GATHER:
        return comm_all_gather(rank->comm, in_place ? result + of->offsets[rank->index] : rank->send, result,
                               of->counts, of->offsets, DTYPE_FP32);
    case ALL_REDUCE:
        return comm_all_reduce(rank->comm, rank->send, result, of->setting.count, DTYPE_FP32, COMM_SUM);
    case ALL_TO_ALL:
        return comm_all_to_all(rank->comm, rank->send, of->counts, of->offsets, result, rank->recv_counts,
                               rank->recv_offsets, DTYPE_FP32);
    default:
        return comm_broadcast(rank->comm, result, of->setting.count * sizeof(float), 0);
    }
}

// The same by MPI, or of memory on a device by NCCL: from send to recv also where the collective is in place.
static int native(const struct comm_rank *rank)
{
    static const enum comm_operation operations[OPERATION_KINDS] = {COMM_REDUCE_SCATTER, COMM_ALL_GATHER,
                                                                    COMM_ALL_REDUCE, COMM_ALL_TO_ALL, COMM_BROADCAST};
    const struct comm_ranks *of = rank->of;
    const struct comm_call call = {
        .operation = operations[of->setting.operation],
        .send_dtype = DTYPE_FP32,
        .recv_dtype = DTYPE_FP32,
        .send = rank->send,
        .recv = rank->recv,
        .count = of->setting.count,
        .counts = of->counts,
        .offsets = of->offsets,
        .recv_counts = rank->recv_counts,
        .recv_offsets = rank->recv_offsets,
    };
    return rank->stage ? nccl_collective_run(rank->comm, &call) : mpi_collective_run(rank->comm, &call);
}

static int rank_work(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    for (size_t call = 0; call < of->calls; call++) {
        if (of->task == TASK_COLLECTIVE)
            TRY(collective(rank));
        else if (of->task == TASK_NATIVE)
            TRY(native(rank));
        else if (of->task == TASK_MEET_AND_COPY)
            TRY(comm_barrier(rank->comm));
        if (of->task != TASK_COLLECTIVE && of->task != TASK_NATIVE)
            comm_rank_copy_same_bytes(rank);
    }
    TRY(comm_rank_copies_end(rank));
    rank->has_native_result = of->task == TASK_NATIVE;
    rank->has_result = of->task == TASK_COLLECTIVE || of->task == TASK_NATIVE;
    return ERR_NONE;
}

static int rank_prepare(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    if (rank->has_result)
        TRY(comm_rank_count_wrong(rank));
    rank->has_result = rank->has_native_result = false;
    if (of->poisons)
        TRY(comm_rank_poison(rank));
    // What was reduced in place is not what was sent any more.
    return of->poisons || of->setting.in_place ? comm_rank_fill(rank) : ERR_NONE;
}

static int rank_repeat(struct comm_rank *rank)
{
    TRY(comm_barrier(rank->comm));
    TRY(rank_work(rank));
    return comm_barrier(rank->comm);
}

static const struct bench_device *device_of(const struct comm_ranks *ranks)
{
    static const struct bench_device processor = {0};
    return ranks->setting.device ? ranks->setting.device : &processor;
}

static int floats_open(const struct comm_rank *rank, size_t count, float **out)
{
    void *memory;
    TRY(bench_device_alloc(device_of(rank->of), count * sizeof **out, &memory));
    *out = memory;
    return ERR_NONE;
}

// What only ranks with memory elsewhere have. The area takes a shard; one without elements, too, has an address.
static int stage_open(struct comm_rank *rank)
{
    void *stage;
    if (!device_of(rank->of)->accelerator)
        return ERR_NONE;
    TRY(bench_device_alloc_host(device_of(rank->of), COMM_STAGE_COUNT * sizeof(float), &stage));
    rank->stage = stage;
    return rank->of->setting.operation == REDUCE_SCATTER && !rank->of->setting.comm
               ? floats_open(rank, rank->of->counts[rank->index] + 1, &rank->area)
               : ERR_NONE;
}

// Each rank's memory is written first by the rank itself. A process has entered its device, a thread does it here.
static int rank_open(struct comm_rank *rank)
{
    if (!rank->of->setting.comm)
        TRY(bench_device_enter(device_of(rank->of), rank->index));
    int code = floats_open(rank, rank->of->setting.count, &rank->send);
    if (code == ERR_NONE)
        code = floats_open(rank, comm_ranks_recv_count(rank), &rank->recv);
    if (code == ERR_NONE)
        code = stage_open(rank);
    if (code != ERR_NONE)
        return err_prefix(code, "rank %d's buffers", rank->index);
    TRY(comm_rank_fill(rank));
    return comm_barrier(rank->comm);
}

static void rank_free(struct comm_rank *rank)
{
    const struct bench_device *device = device_of(rank->of);
    bench_device_free(device, rank->send, rank->of->setting.count * sizeof(float));
    bench_device_free(device, rank->recv, comm_ranks_recv_count(rank) * sizeof(float));
    bench_device_free(device, rank->area, (rank->of->counts[rank->index] + 1) * sizeof(float));
    bench_device_free_host(device, rank->stage, COMM_STAGE_COUNT * sizeof(float));
}

static int rank_follow(struct comm_rank *rank)
{
    TRY(rank_open(rank));
    for (;;) {
        TRY(comm_barrier(rank->comm));
        TRY(rank_prepare(rank));
        if (rank->of->task == TASK_END)
            return ERR_NONE;
        TRY(comm_barrier(rank->comm));
        TRY(rank_repeat(rank));
    }
}

// A rank that fails makes all fail; rank 0 returns its message.
static void *rank_thread(void *argument)
{
    struct comm_rank *rank = argument;
    if (rank_follow(rank) != ERR_NONE)
        comm_abort(rank->comm, err_message());
    return NULL;
}

static int threads_start(struct comm_ranks *ranks)
{
    for (ranks->started = 1; ranks->started < ranks->own_count; ranks->started++) {
        struct comm_rank *rank = &ranks->ranks[ranks->started];
        if (pthread_create(&rank->thread, NULL, rank_thread, rank) != 0)
            return err_set(ERR_MEMORY, "no thread for rank %d", rank->index);
    }
    return rank_open(&ranks->ranks[0]);
}

static void ranks_free(struct comm_ranks *ranks)
{
    for (int i = 0; ranks->ranks && i < ranks->own_count; i++)
        free(ranks->ranks[i].recv_counts);
    free(ranks->ranks);
    free(ranks->counts);
    ranks->ranks = NULL;
    ranks->counts = NULL;
}

static void ranks_end(struct comm_ranks *ranks)
{
    for (int i = 1; i < ranks->started; i++)
        pthread_join(ranks->ranks[i].thread, NULL);
    for (int i = 0; i < ranks->own_count; i++) {
        rank_free(&ranks->ranks[i]);
        if (!ranks->setting.comm)
            comm_close(ranks->ranks[i].comm);
    }
    ranks_free(ranks);
}

// Equal shards, or shards in proportion to 1, 2, 3, ... of which the last takes what is left.
static void cut_shards(struct comm_ranks *ranks)
{
    size_t world = (size_t)ranks->setting.world, whole = ranks->setting.count, offset = 0;
    for (size_t rank = 0; rank < world; rank++) {
        size_t count = ranks->setting.uneven ? whole * 2 * (rank + 1) / (world * (world + 1)) : whole / world;
        ranks->counts[rank] = rank + 1 == world ? whole - offset : count;
        ranks->offsets[rank] = offset;
        offset += ranks->counts[rank];
    }
}

static int rank_place(struct comm_ranks *ranks, int own, struct comm *comm)
{
    size_t world = (size_t)ranks->setting.world;
    struct comm_rank *rank = &ranks->ranks[own];
    *rank = (struct comm_rank){.of = ranks, .comm = comm, .index = comm_rank(comm)};
    rank->recv_counts = calloc(2 * world, sizeof *rank->recv_counts);
    if (!rank->recv_counts)
        return err_set(ERR_MEMORY, "no memory for the shards of %zu ranks", world);
    rank->recv_offsets = rank->recv_counts + world;
    for (size_t peer = 0; peer < world; peer++) {
        rank->recv_counts[peer] = ranks->counts[rank->index];
        rank->recv_offsets[peer] = peer * ranks->counts[rank->index];
    }
    return ERR_NONE;
}

// Each rank of this process with its place in the world.
static int ranks_place(struct comm_ranks *ranks)
{
    struct comm *comms[WORLD_MAX] = {ranks->setting.comm};
    size_t world = (size_t)ranks->setting.world;
    ranks->own_count = ranks->setting.comm ? 1 : ranks->setting.world;
    ranks->counts = calloc(2 * world, sizeof *ranks->counts);
    ranks->ranks = calloc((size_t)ranks->own_count, sizeof *ranks->ranks);
    if (!ranks->counts || !ranks->ranks)
        return err_set(ERR_MEMORY, "no memory for %zu ranks", world);
    ranks->offsets = ranks->counts + world;
    cut_shards(ranks);
    if (!ranks->setting.comm)
        TRY(comm_local_open(ranks->setting.world, comms));
    int code = ERR_NONE;
    for (int own = 0; own < ranks->own_count && code == ERR_NONE; own++)
        code = rank_place(ranks, own, comms[own]);
    for (int own = 0; own < ranks->own_count && code != ERR_NONE && !ranks->setting.comm; own++)
        comm_close(comms[own]);
    return code;
}

int comm_ranks_open(const struct comm_setting *setting, struct comm_ranks *ranks)
{
    size_t world = (size_t)setting->world, shard_elements = setting->count / world > 0 ? setting->count / world : 1;
    *ranks = (struct comm_ranks){.setting = *setting, .calls = 1};
    ranks->setting.count = shard_elements * world;
    int code = ranks_place(ranks);
    if (code != ERR_NONE) {
        ranks_free(ranks);
        return code;
    }
    code = threads_start(ranks);
    if (code != ERR_NONE) {
        comm_abort(ranks->ranks[0].comm, err_message());
        ranks_end(ranks);
    }
    return code;
}

int comm_ranks_prepare(struct comm_ranks *ranks, enum task task, bool poisons)
{
    struct comm_rank *self = &ranks->ranks[0];
    ranks->task = task;
    ranks->poisons = poisons;
    TRY(comm_barrier(self->comm));
    TRY(rank_prepare(self));
    if (task == TASK_END)
        return ERR_NONE;
    // The others are awake when this returns: a repetition does not wait for them to wake.
    return comm_barrier(self->comm);
}

int comm_ranks_repeat(struct comm_ranks *ranks)
{
    return rank_repeat(&ranks->ranks[0]);
}

int comm_ranks_close(struct comm_ranks *ranks, size_t *wrong_count)
{
    uint64_t wrong = 0;
    int code = comm_ranks_prepare(ranks, TASK_END, false);
    for (int i = 1; i < ranks->started; i++)
        pthread_join(ranks->ranks[i].thread, NULL);
    ranks->started = 0;
    for (int i = 0; i < ranks->own_count; i++)
        wrong += ranks->ranks[i].wrong_count;
    if (code == ERR_NONE)
        code = comm_ranks_sum(ranks, wrong, &wrong);
    ranks_end(ranks);
    *wrong_count = (size_t)wrong;
    return code;
}
