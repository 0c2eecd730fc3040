// SPDX-License-Identifier: Apache-2.0
#include "comm_ranks.h"

#include "bench.h"
#include "comm_copy.h"
#include "err.h"

#include <stdint.h>
#include <string.h>

const char *comm_ranks_operation_name(enum operation operation)
{
    static const char *const names[OPERATION_KINDS] = {"reduce-scatter", "all-gather", "all-reduce", "all-to-all",
                                                       "broadcast"};
    return names[operation];
}

// Small integers, so that every sum of them is exact.
static float value_at(int rank, size_t index)
{
    return (float)((uint32_t)index * 2654435761u >> 24) + (float)(3 * rank);
}

static void fill(float *to, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = value_at(rank, i);
}

// Elements of recv[count] that are not those of `rank` from `start` on.
static size_t count_wrong(const float *recv, int rank, size_t start, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += recv[i] != value_at(rank, start + i);
    return wrong;
}

static size_t count_wrong_sums(const float *recv, int world, size_t start, size_t count)
{
    size_t wrong = 0;
    float of_ranks = (float)(3 * world * (world - 1) / 2);
    for (size_t i = 0; i < count; i++)
        wrong += recv[i] != (float)world * value_at(0, start + i) + of_ranks;
    return wrong;
}

static size_t result_wrong(const struct comm_rank *rank)
{
    const struct comm_ranks *m = rank->of;
    size_t own = m->offsets[rank->index], wrong = 0;
    switch (m->operation) {
    case REDUCE_SCATTER:
        return count_wrong_sums(rank->recv, m->world, own, m->share_count);
    case ALL_REDUCE:
        return count_wrong_sums(rank->recv, m->world, 0, m->count);
    case BROADCAST:
        return count_wrong(rank->recv, 0, 0, m->count);
    default:
        for (int peer = 0; peer < m->world; peer++)
            wrong += count_wrong(rank->recv + m->offsets[peer], peer, m->operation == ALL_GATHER ? 0 : own,
                                 m->share_count);
        return wrong;
    }
}

static int collective(const struct comm_rank *rank)
{
    const struct comm_ranks *m = rank->of;
    switch (m->operation) {
    case REDUCE_SCATTER:
        return comm_reduce_scatter(rank->comm, rank->send, DTYPE_FP32, rank->recv, DTYPE_FP32, m->counts, false);
    case ALL_GATHER:
        return comm_all_gather(rank->comm, rank->send, rank->recv, m->counts, m->offsets, DTYPE_FP32);
    case ALL_REDUCE:
        return comm_all_reduce(rank->comm, rank->send, rank->recv, m->count, DTYPE_FP32, COMM_SUM);
    case ALL_TO_ALL:
        return comm_all_to_all(rank->comm, rank->send, m->counts, m->offsets, rank->recv, m->counts, m->offsets,
                               DTYPE_FP32);
    default:
        return comm_broadcast(rank->comm, rank->recv, m->count * sizeof(float), 0);
    }
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

// This rank's part of the yardstick: share by share, beginning with the next rank's, as the collectives do.
static void copy_same_bytes(const struct comm_rank *rank, enum task task)
{
    const struct comm_ranks *m = rank->of;
    size_t share_bytes = m->share_count * sizeof(float), own = m->offsets[rank->index];
    if (m->operation == BROADCAST) {
        if (rank->index != 0)
            copy(rank->recv, m->ranks[0].recv, m->count * sizeof(float), task);
        return;
    }
    for (int step = 1; step <= m->world; step++) {
        const struct comm_rank *peer = &m->ranks[(rank->index + step) % m->world];
        if (m->operation == ALL_GATHER)
            copy(rank->recv + m->offsets[peer->index], peer->send, share_bytes, task);
        else if (m->operation == ALL_TO_ALL)
            copy(rank->recv + m->offsets[peer->index], peer->send + own, share_bytes, task);
        else if (m->operation == ALL_REDUCE)
            copy(peer->recv + own, peer->send + own, share_bytes, task);
        else if (peer == rank)
            copy(rank->recv, rank->send + own, share_bytes, task);
        else
            read_only(peer->send + own, share_bytes);
    }
}

static int rank_work(struct comm_rank *rank)
{
    const struct comm_ranks *m = rank->of;
    for (size_t call = 0; call < m->calls; call++) {
        if (m->task == TASK_COLLECTIVE)
            TRY(collective(rank));
        else
            copy_same_bytes(rank, m->task);
    }
    if (m->task == TASK_COPY_AROUND_CACHE)
        copy_around_cache_end();
    rank->has_result = m->task == TASK_COLLECTIVE;
    return ERR_NONE;
}

static void rank_prepare(struct comm_rank *rank)
{
    const struct comm_ranks *m = rank->of;
    if (rank->has_result)
        rank->wrong_count += result_wrong(rank);
    rank->has_result = false;
    if (!m->poisons)
        return;
    // The root of a broadcast has the data there.
    if (m->operation != BROADCAST || rank->index != 0)
        memset(rank->recv, 0xff, m->count * sizeof(float));
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
    size_t bytes = rank->of->count * sizeof(float);
    rank->send = bench_alloc(bytes, 1);
    rank->recv = bench_alloc(bytes, 1);
    if (!rank->send || !rank->recv)
        return err_set(ERR_MEMORY, "no memory for two buffers of %zu bytes a rank", bytes);
    fill(rank->send, rank->index, rank->of->count);
    if (rank->of->operation == BROADCAST && rank->index == 0)
        fill(rank->recv, 0, rank->of->count);
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
    for (ranks->started = 1; ranks->started < ranks->world; ranks->started++) {
        struct comm_rank *rank = &ranks->ranks[ranks->started];
        if (pthread_create(&rank->thread, NULL, rank_thread, rank) != 0)
            return err_set(ERR_MEMORY, "no thread for rank %d", rank->index);
    }
    return rank_open(&ranks->ranks[0]);
}

static void threads_end(struct comm_ranks *ranks)
{
    for (int index = 1; index < ranks->started; index++)
        pthread_join(ranks->ranks[index].thread, NULL);
    for (int index = 0; index < ranks->world; index++) {
        struct comm_rank *rank = &ranks->ranks[index];
        bench_free(rank->send, ranks->count * sizeof(float));
        bench_free(rank->recv, ranks->count * sizeof(float));
        comm_close(rank->comm);
    }
}

int comm_ranks_open(struct comm_ranks *ranks, enum operation operation, int world, size_t count, size_t calls)
{
    size_t share_count = count / (size_t)world > 0 ? count / (size_t)world : 1;
    *ranks = (struct comm_ranks){.operation = operation,
                                 .world = world,
                                 .count = share_count * (size_t)world,
                                 .share_count = share_count,
                                 .calls = calls};
    struct comm *comms[WORLD_MAX];
    TRY(comm_local_open(world, comms));
    for (int index = 0; index < world; index++) {
        ranks->counts[index] = share_count;
        ranks->offsets[index] = share_count * (size_t)index;
        ranks->ranks[index] = (struct comm_rank){.of = ranks, .comm = comms[index], .index = index};
    }
    int code = threads_start(ranks);
    if (code != ERR_NONE) {
        comm_abort(ranks->ranks[0].comm, err_message());
        threads_end(ranks);
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
    int code = comm_ranks_prepare(ranks, TASK_END, false);
    threads_end(ranks);
    *wrong_count = 0;
    for (int index = 0; index < ranks->world; index++)
        *wrong_count += ranks->ranks[index].wrong_count;
    return code;
}
