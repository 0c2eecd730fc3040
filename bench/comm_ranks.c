// SPDX-License-Identifier: Apache-2.0
#include "comm_ranks.h"

#include "bench.h"
#include "comm_copy.h"
#include "err.h"
#include "mpi_collective.h"

#include <stdlib.h>
#include <string.h>

const char *comm_ranks_operation_name(enum operation operation)
{
    static const char *const names[OPERATION_KINDS] = {"reduce-scatter", "all-gather", "all-reduce", "all-to-all",
                                                       "broadcast"};
    return names[operation];
}

bool comm_ranks_has_shares(enum operation operation)
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
        // What is not its own share; in an all-to-all it may receive more than it sends.
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

// The same by MPI, from send to recv also where the collective is in place.
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
    return mpi_collective_run(rank->comm, &call);
}

static void copy(void *to, const void *from, size_t bytes, enum task task)
{
    if (task == TASK_COPY_AROUND_CACHE)
        copy_around_cache(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

typedef uint64_t __attribute__((may_alias, aligned(1))) word_bits;

// Reads memory and keeps a trace of it, so that the compiler does not leave the reading out.
static void read_only(const void *from, size_t bytes)
{
    const word_bits *words = from;
    uint64_t trace = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        trace |= words[i];
    __asm__ volatile("" : : "r"(trace));
}

// This rank's part of the yardstick: share by share, beginning with the next rank's, as the collectives do. From send
// to recv, also where the collective is in place.
static void copy_same_bytes(const struct comm_rank *rank, enum task task)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->offsets[rank->index], own_bytes = of->counts[rank->index] * sizeof(float);
    if (of->setting.operation == BROADCAST) {
        if (rank->index != 0)
            copy(rank->recv, of->ranks[0].recv, of->setting.count * sizeof(float), task);
        return;
    }
    for (int step = 1; step <= of->setting.world; step++) {
        const struct comm_rank *peer = &of->ranks[(rank->index + step) % of->setting.world];
        if (of->setting.operation == ALL_GATHER)
            copy(rank->recv + of->offsets[peer->index], peer->send, of->counts[peer->index] * sizeof(float), task);
        else if (of->setting.operation == ALL_TO_ALL)
            copy(rank->recv + rank->recv_offsets[peer->index], peer->send + own, own_bytes, task);
        else if (of->setting.operation == ALL_REDUCE)
            copy(peer->recv + own, peer->send + own, own_bytes, task);
        else if (peer == rank)
            copy(rank->recv, rank->send + own, own_bytes, task);
        else
            read_only(peer->send + own, own_bytes);
    }
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
            copy_same_bytes(rank, of->task);
    }
    if (of->task == TASK_COPY_AROUND_CACHE)
        copy_around_cache_end();
    rank->has_native_result = of->task == TASK_NATIVE;
    rank->has_result = of->task == TASK_COLLECTIVE || of->task == TASK_NATIVE;
    return ERR_NONE;
}

static void rank_prepare(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    if (rank->has_result)
        rank->wrong_count += comm_rank_wrong(rank);
    rank->has_result = rank->has_native_result = false;
    if (of->poisons)
        memset(rank->recv, 0xff, comm_ranks_recv_count(rank) * sizeof(float));
    // What was reduced in place is not what was sent any more.
    if (of->poisons || of->setting.in_place)
        comm_rank_fill(rank);
}

static int rank_repeat(struct comm_rank *rank)
{
    TRY(comm_barrier(rank->comm));
    TRY(rank_work(rank));
    return comm_barrier(rank->comm);
}

// Each rank's memory is written first by the rank itself.
static int rank_open(struct comm_rank *rank)
{
    size_t send_bytes = rank->of->setting.count * sizeof(float);
    size_t recv_bytes = comm_ranks_recv_count(rank) * sizeof(float);
    rank->send = bench_alloc(send_bytes, 1);
    rank->recv = bench_alloc(recv_bytes, 1);
    if (!rank->send || !rank->recv)
        return err_set(ERR_MEMORY, "no memory for buffers of %zu and %zu bytes a rank", send_bytes, recv_bytes);
    comm_rank_fill(rank);
    return comm_barrier(rank->comm);
}

static int rank_follow(struct comm_rank *rank)
{
    TRY(rank_open(rank));
    for (;;) {
        TRY(comm_barrier(rank->comm));
        rank_prepare(rank);
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
        struct comm_rank *rank = &ranks->ranks[i];
        bench_free(rank->send, ranks->setting.count * sizeof(float));
        bench_free(rank->recv, comm_ranks_recv_count(rank) * sizeof(float));
        if (!ranks->setting.comm)
            comm_close(rank->comm);
    }
    ranks_free(ranks);
}

// Equal shares, or shares in proportion to 1, 2, 3, ... of which the last takes what is left.
static void cut_shares(struct comm_ranks *ranks)
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
        return err_set(ERR_MEMORY, "no memory for the shares of %zu ranks", world);
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
    cut_shares(ranks);
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
    size_t world = (size_t)setting->world, share_count = setting->count / world > 0 ? setting->count / world : 1;
    *ranks = (struct comm_ranks){.setting = *setting, .calls = 1};
    ranks->setting.count = share_count * world;
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
    rank_prepare(self);
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
