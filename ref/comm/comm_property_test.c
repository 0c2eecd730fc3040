// SPDX-License-Identifier: Apache-2.0
// Properties of the collectives beyond their data (comm_test.c): ties and NaNs in maxima, sums that are cut in other
// ways, reuse of buffers, and the traffic that the ledger counts.
#include "ref/comm/comm_test.h"

#include "ref/arithmetic/random.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static void maximum_body(struct rank *rank)
{
    static const uint32_t inputs[3][4] = {
        {0x00000000, 0xff800000, 0x7fc00001, 0x3f800000},  // +0, -inf, a NaN, 1
        {0x80000000, 0xff800000, 0x7f800000, 0xffc00002},  // -0, -inf, inf, a NaN
        {0x80000000, 0xc0000000, 0xffc00003, 0x7f800000},  // -0, -2, a NaN, inf
    };
    static const uint32_t expected[4] = {0x00000000, 0xc0000000, 0x7fc00001, 0xffc00002};
    uint32_t result[4];
    memcpy(result, inputs[rank->index], sizeof result);
    if (comm_all_reduce(rank->comm, result, result, 4, DTYPE_FP32, COMM_MAX) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    for (int i = 0; i < 4; i++)
        if (result[i] != expected[i])
            rank_wrong(rank, "element %d is %08x, not %08x", i, result[i], expected[i]);
}

Test(comm_property, a_nan_is_the_maximum_and_the_lowest_rank_wins_ties)
{
    ranks_run_well(3, maximum_body, NULL);
}

// Sums a buffer in one call, in pieces, and by a reduce-scatter with an all-gather after it.
static void cut_body(struct rank *rank)
{
    enum { COUNT = 30011, PIECE = 997 };
    enum dtype dtype = DTYPE_BF16;
    struct bf16 *send = malloc(4 * COUNT * sizeof *send), *whole = send + COUNT;
    struct bf16 *pieces = whole + COUNT, *shards = pieces + COUNT;
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t bits = random_at((uint64_t)rank->index, i);
        send[i] = f32_to_bf16(ldexpf(random_normal(bits), (int)(bits % 9) - 4));
    }
    int rc = comm_all_reduce(rank->comm, send, whole, COUNT, dtype, COMM_SUM);
    for (size_t from = 0; from < COUNT; from += PIECE)
        rc |= comm_all_reduce(rank->comm, send + from, pieces + from, COUNT - from < PIECE ? COUNT - from : PIECE,
                              dtype, COMM_SUM);
    size_t counts[RANKS_MAX] = {0}, offsets[RANKS_MAX];
    for (int peer = 0; peer < rank->world; peer++) {
        counts[peer] = peer == 0 ? COUNT - 11 * (size_t)(rank->world - 1) : 11;
        offsets[peer] = peer == 0 ? 0 : offsets[peer - 1] + counts[peer - 1];
    }
    struct bf16 *own = shards + offsets[rank->index];
    rc |= comm_reduce_scatter(rank->comm, send, own, counts, offsets, dtype);
    rc |= comm_all_gather(rank->comm, own, shards, counts, offsets, dtype);
    if (rc != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    else if (memcmp(whole, pieces, COUNT * sizeof *whole) != 0 || memcmp(whole, shards, COUNT * sizeof *whole) != 0)
        rank_wrong(rank, "the bits depend on the cut");
    free(send);
}

Test(comm_property, the_bits_of_a_sum_do_not_depend_on_the_cut)
{
    for (EACH_WORLD(i))
        ranks_run_well(many_worlds[i], cut_body, NULL);
}

// Rewrites the buffers as soon as a collective returns, in many rounds with different delays: a rank that still read
// them would see the next round's values.
static void rewrite_body(struct rank *rank)
{
    size_t shard = *(const size_t *)rank->context, count = shard * (size_t)rank->world;
    size_t counts[RANKS_MAX], offsets[RANKS_MAX];
    for (int peer = 0; peer < rank->world; peer++) {
        counts[peer] = shard;
        offsets[peer] = (size_t)peer * shard;
    }
    float *all = malloc(2 * count * sizeof *all), *sums = all + count, *own = all + offsets[rank->index];
    float *own_sum = sums + offsets[rank->index];
    for (int round = 0; round < 100 && rank->report[0] == '\0'; round++) {
        for (size_t i = 0; i < shard; i++)
            own[i] = (float)(round + rank->index);
        for (size_t i = 0; i < count; i++)
            sums[i] = (float)(round * (rank->index + 1));
        if (random_below(random_at((uint64_t)rank->index, (uint64_t)round), 16) == 0)
            sleep_seconds(50e-6);
        int rc = comm_all_gather(rank->comm, own, all, counts, offsets, DTYPE_FP32);
        if (rc == ERR_NONE)
            rc = comm_reduce_scatter(rank->comm, sums, own_sum, counts, offsets, DTYPE_FP32);
        if (rc == ERR_NONE)
            rc = comm_all_reduce(rank->comm, own, own, shard, DTYPE_FP32, COMM_SUM);
        if (rc != ERR_NONE) {
            rank_wrong(rank, "%s", err_message());
            break;
        }
        float triangle = (float)(rank->world * (rank->world + 1) / 2), ranks = (float)rank->world;
        for (size_t i = 0; i < count; i++) {
            bool is_own = i / shard == (size_t)rank->index;
            float gathered = (float)(round + (int)(i / shard));
            float expected = is_own ? (float)round * ranks + ranks * (ranks - 1) / 2 : gathered;
            if (all[i] != expected || (is_own && sums[i] != (float)round * triangle))
                rank_wrong(rank, "round %d, element %zu: %g and %g", round, i, (double)all[i], (double)sums[i]);
        }
    }
    free(all);
}

Test(comm_property, concurrent_buffers_may_be_rewritten_as_soon_as_a_collective_returns)
{
    for (EACH_WORLD(i))
        for (size_t shard = 5; shard <= 5000; shard *= 1000)
            ranks_run_well(many_worlds[i], rewrite_body, &shard);
}

static void expect_sent(struct rank *rank, struct ledger *ledger, enum ledger_operation operation, uint64_t bytes,
                        uint64_t calls)
{
    uint64_t moved = ledger->moved_bytes[LANE_COLLECTIVE][operation];
    uint64_t count = ledger->moved_count[LANE_COLLECTIVE][operation];
    if (moved != bytes || count != calls)
        rank_wrong(rank, "%s: %llu bytes in %llu calls, not %llu in %llu", ledger_operation_name(operation),
                   (unsigned long long)moved, (unsigned long long)count, (unsigned long long)bytes,
                   (unsigned long long)calls);
}

static void ledger_body(struct rank *rank)
{
    static const size_t counts[4] = {7, 0, 5, 30}, offsets[4] = {0, 7, 7, 12};
    static const size_t to_all[4][4] = {{1, 2, 3, 4}, {0, 9, 0, 9}, {5, 5, 5, 5}, {0, 0, 0, 8}};
    // An all-reduce of 42 elements has shards of 11, 11, 10 and 10.
    static const uint64_t all_reduce[4] = {31 + 33, 31 + 33, 32 + 30, 32 + 30};
    static const uint64_t all_to_all[4] = {9, 9, 15, 0};
    struct ledger ledger = {0};
    float send[64] = {0}, recv[64];
    size_t send_offsets[4] = {0}, from_all[4], recv_offsets[4] = {0};
    for (int peer = 0; peer < 4; peer++) {
        from_all[peer] = to_all[peer][rank->index];
        if (peer > 0) {
            send_offsets[peer] = send_offsets[peer - 1] + to_all[rank->index][peer - 1];
            recv_offsets[peer] = recv_offsets[peer - 1] + from_all[peer - 1];
        }
    }
    int me = rank->index;
    int rc = comm_barrier(rank->comm);
    comm_count_in(rank->comm, &ledger);
    if (comm_ledger(rank->comm) != &ledger)
        rank_wrong(rank, "comm_ledger returns another ledger");
    rc |= comm_barrier(rank->comm);
    rc |= comm_all_to_all(rank->comm, send, to_all[me], send_offsets, recv, from_all, recv_offsets, DTYPE_FP32);
    rc |= comm_reduce_scatter(rank->comm, send, recv, counts, offsets, DTYPE_BF16);
    rc |= comm_reduce_scatter(rank->comm, send, recv, counts, offsets, DTYPE_FP32);
    rc |= comm_all_gather(rank->comm, send, recv, counts, offsets, DTYPE_FP16);
    rc |= comm_all_reduce(rank->comm, send, recv, 42, DTYPE_FP32, COMM_SUM);
    rc |= comm_all_reduce(rank->comm, send, recv, 42, DTYPE_BYTE, COMM_MAX);
    rc |= comm_broadcast(rank->comm, send, 100, 2);
    comm_count_in(rank->comm, NULL);
    rc |= comm_broadcast(rank->comm, send, 100, 2);
    if (rc != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    expect_sent(rank, &ledger, OPERATION_ALL_TO_ALL, 4 * all_to_all[me], 1);
    expect_sent(rank, &ledger, OPERATION_REDUCE_SCATTER, (2 + 4) * (42 - counts[me]), 2);
    expect_sent(rank, &ledger, OPERATION_ALL_GATHER, 2 * 3 * counts[me], 1);
    expect_sent(rank, &ledger, OPERATION_ALL_REDUCE, (4 + 1) * all_reduce[me], 2);
    expect_sent(rank, &ledger, OPERATION_BROADCAST, me == 2 ? 300 : 0, 1);
    expect_sent(rank, &ledger, OPERATION_COPY, 0, 0);
}

Test(comm_property, the_ledger_counts_exactly_what_a_rank_sends_to_others)
{
    ranks_run_well(4, ledger_body, NULL);
}

static void alone_body(struct rank *rank)
{
    struct ledger ledger = {0};
    float send[3] = {1, 2, 3}, recv[3];
    size_t count = 3, offset = 0;
    comm_count_in(rank->comm, &ledger);
    if (comm_all_reduce(rank->comm, send, recv, 3, DTYPE_FP32, COMM_SUM) != ERR_NONE ||
        comm_all_gather(rank->comm, send, recv, &count, &offset, DTYPE_FP32) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    expect_sent(rank, &ledger, OPERATION_ALL_REDUCE, 0, 1);
    expect_sent(rank, &ledger, OPERATION_ALL_GATHER, 0, 1);
    if (comm_rank(rank->comm) != 0 || comm_world(rank->comm) != 1)
        rank_wrong(rank, "rank %d of %d", comm_rank(rank->comm), comm_world(rank->comm));
}

Test(comm_property, a_world_of_one_sends_nothing)
{
    ranks_run_well(1, alone_body, NULL);
}
