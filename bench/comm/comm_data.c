// SPDX-License-Identifier: Apache-2.0
// Fills the ranks' buffers and verifies their results. Data on a device passes through the rank's stage in pieces.
#include "bench/comm/comm_ranks.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <stdlib.h>
#include <string.h>

typedef float value_function(int rank, size_t index);

// Small integers, so that every sum is exact.
static float value_at(int rank, size_t index)
{
    return (float)((uint32_t)index * 2654435761u >> 24) + (float)(3 * rank);
}

static float sum_at(int world, size_t index)
{
    return (float)world * value_at(0, index) + (float)(3 * world * (world - 1) / 2);
}

// Division by 3 fills all digits, so that nearly every addition rounds.
static float rough_at(int rank, size_t index)
{
    return random_normal(random_at(random_key(1, (uint64_t)rank), index)) / 3;
}

// Returns how many of `left` elements fit into the stage, or all without one.
static size_t piece_count(const struct comm_rank *rank, size_t left)
{
    return rank->stage && left > COMM_STAGE_COUNT ? COMM_STAGE_COUNT : left;
}

// Sets to[i] = value(number, start + i) for i < count; `number` is a rank, or the world for sums.
static int fill(const struct comm_rank *rank, float *to, value_function *value, int number, size_t start, size_t count)
{
    for (size_t from = 0, piece; from < count; from += piece) {
        piece = piece_count(rank, count - from);
        float *here = rank->stage ? rank->stage : to + from;
        for (size_t i = 0; i < piece; i++)
            here[i] = value(number, start + from + i);
        if (rank->stage)
            TRY(bytes_copy(to + from, here, piece * sizeof *here));
    }
    return ERR_NONE;
}

int comm_rank_fill(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->offsets[rank->index];
    TRY(fill(rank, rank->send, value_at, rank->index, 0, of->setting.count));
    if (of->setting.operation == BROADCAST && rank->index == 0)
        return fill(rank, rank->recv, value_at, 0, 0, of->setting.count);
    // An all-gather in place reads the rank's shard from its place in recv.
    if (of->setting.operation == ALL_GATHER && of->setting.in_place)
        return fill(rank, rank->recv + own, value_at, rank->index, 0, of->counts[rank->index]);
    return ERR_NONE;
}

int comm_rank_fill_roughly(struct comm_rank *rank)
{
    return fill(rank, rank->send, rough_at, rank->index, 0, rank->of->setting.count);
}

size_t comm_rank_recv_count(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t all = (size_t)of->setting.world * of->counts[rank->index];
    return of->setting.operation == ALL_TO_ALL && all > of->setting.count ? all : of->setting.count;
}

int comm_rank_poison(struct comm_rank *rank)
{
    size_t bytes = comm_rank_recv_count(rank) * sizeof(float);
    if (rank->stage)
        return rank->of->setting.device->accelerator->fill(rank->recv, 0xffffffff, bytes);
    memset(rank->recv, 0xff, bytes);
    return ERR_NONE;
}

size_t comm_rank_result_count(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->counts[rank->index];
    return of->setting.operation == REDUCE_SCATTER ? own
           : of->setting.operation == ALL_TO_ALL   ? own * (size_t)of->setting.world
                                                   : of->setting.count;
}

float *comm_rank_result(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    if (rank->has_native_result || !of->setting.in_place || of->setting.operation == ALL_GATHER)
        return rank->recv;
    return rank->send + (of->setting.operation == REDUCE_SCATTER ? of->offsets[rank->index] : 0);
}

// Counts the elements with result[i] != value(number, start + i).
static int compare(struct comm_rank *rank, const float *result, value_function *value, int number, size_t start,
                   size_t count)
{
    size_t result_bytes = comm_rank_result_count(rank) * sizeof *result, of = 0;
    bool whole = !rank->stage || rank->was_poisoned || result_bytes <= rank->of->whole_bytes;
    for (size_t from = 0, piece; from < count; from += piece) {
        piece = piece_count(rank, count - from);
        if (!whole && of++ % COMM_SAMPLED_PIECES != rank->sample % COMM_SAMPLED_PIECES)
            continue;
        const float *here = rank->stage ? rank->stage : result + from;
        if (rank->stage)
            TRY(bytes_copy(rank->stage, result + from, piece * sizeof *here));
        for (size_t i = 0; i < piece; i++)
            rank->wrong_count += here[i] != value(number, start + from + i);
    }
    return ERR_NONE;
}

int comm_rank_count_wrong(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    const float *result = comm_rank_result(rank);
    size_t own = of->offsets[rank->index];
    int world = of->setting.world;
    rank->sample++;
    switch (of->setting.operation) {
    case REDUCE_SCATTER:
        return compare(rank, result, sum_at, world, own, of->counts[rank->index]);
    case ALL_REDUCE:
        return compare(rank, result, sum_at, world, 0, of->setting.count);
    case BROADCAST:
        return compare(rank, result, value_at, 0, 0, of->setting.count);
    case ALL_GATHER:
        for (int peer = 0; peer < world; peer++)
            TRY(compare(rank, result + of->offsets[peer], value_at, peer, 0, of->counts[peer]));
        return ERR_NONE;
    default:
        for (int peer = 0; peer < world; peer++)
            TRY(compare(rank, result + rank->recv_offsets[peer], value_at, peer, own, rank->recv_counts[peer]));
        return ERR_NONE;
    }
}

int comm_ranks_agree(const struct comm_ranks *ranks, uint64_t *value)
{
    return ranks->setting.comm ? comm_broadcast(ranks->setting.comm, value, sizeof *value, 0) : ERR_NONE;
}

int comm_ranks_sum(const struct comm_ranks *ranks, uint64_t own, uint64_t *sum)
{
    struct comm *comm = ranks->setting.comm;
    *sum = own;
    if (!comm)
        return ERR_NONE;
    size_t world = (size_t)comm_world(comm);
    uint64_t *all = calloc(world, sizeof *all);
    int code = all ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the counts of %zu ranks", world);
    if (code == ERR_NONE)
        code = comm_all_gather_equal(comm, &own, all, sizeof own);
    *sum = 0;
    for (size_t rank = 0; rank < world && code == ERR_NONE; rank++)
        *sum += all[rank];
    free(all);
    return code;
}
