// SPDX-License-Identifier: Apache-2.0
// What ranks send, and whether what they received is right.
#include "comm_ranks.h"

#include "random.h"

#include <string.h>

// Small integers, so that every sum of them is exact.
static float value_at(int rank, size_t index)
{
    return (float)((uint32_t)index * 2654435761u >> 24) + (float)(3 * rank);
}

static void fill(float *to, int rank, size_t from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = value_at(rank, from + i);
}

void comm_rank_fill(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->offsets[rank->index];
    fill(rank->send, rank->index, 0, of->setting.count);
    if (of->setting.operation == BROADCAST && rank->index == 0)
        fill(rank->recv, 0, 0, of->setting.count);
    // In place, a share of an all-gather begins where it belongs; it is what send begins with.
    if (of->setting.operation == ALL_GATHER && of->setting.in_place)
        fill(rank->recv + own, rank->index, 0, of->counts[rank->index]);
}

// A third of anything has all its digits, so that nearly every addition rounds.
void comm_rank_fill_roughly(struct comm_rank *rank)
{
    uint64_t key = random_key(1, (uint64_t)rank->index);
    for (size_t i = 0; i < rank->of->setting.count; i++)
        rank->send[i] = random_normal(random_at(key, i)) / 3;
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

size_t comm_rank_wrong(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    const float *result = comm_rank_result(rank);
    size_t own = of->offsets[rank->index], wrong = 0;
    int world = of->setting.world;
    switch (of->setting.operation) {
    case REDUCE_SCATTER:
        return count_wrong_sums(result, world, own, of->counts[rank->index]);
    case ALL_REDUCE:
        return count_wrong_sums(result, world, 0, of->setting.count);
    case BROADCAST:
        return count_wrong(result, 0, 0, of->setting.count);
    case ALL_GATHER:
        for (int peer = 0; peer < world; peer++)
            wrong += count_wrong(result + of->offsets[peer], peer, 0, of->counts[peer]);
        return wrong;
    default:
        for (int peer = 0; peer < world; peer++)
            wrong += count_wrong(result + rank->recv_offsets[peer], peer, own, rank->recv_counts[peer]);
        return wrong;
    }
}
