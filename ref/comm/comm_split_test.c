// SPDX-License-Identifier: Apache-2.0
// Parts of a world: their collectives, their independence, and failures that reach them.
#include "ref/comm/comm_test.h"

// The ranks of a world whose number is `from` modulo `step`.
static int every(int world, int from, int step, int members[RANKS_MAX])
{
    int count = 0;
    for (int rank = from; rank < world; rank += step)
        members[count++] = rank;
    return count;
}

static struct comm *part_of(struct rank *rank, struct comm *comm, int step)
{
    int members[RANKS_MAX], count = every(comm_world(comm), comm_rank(comm) % step, step, members);
    struct comm *part = NULL;
    if (comm_split(comm, members, count, &part) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    else if (comm_world(part) != count || members[comm_rank(part)] != comm_rank(comm))
        rank_wrong(rank, "is rank %d of %d in its part", comm_rank(part), comm_world(part));
    return part;
}

// The sum and the concatenation of the ranks' numbers in the whole world, over the ranks of one part.
static void expect_of_members(struct rank *rank, struct comm *part, const int members[])
{
    float numbers[2] = {(float)(1 << rank->index), 1}, sums[2];
    int all[RANKS_MAX], expected = 0, world = comm_world(part);
    for (int i = 0; i < world; i++)
        expected += 1 << members[i];
    if (comm_all_reduce(part, numbers, sums, 2, DTYPE_FP32, COMM_SUM) != ERR_NONE ||
        comm_all_gather_equal(part, &rank->index, all, sizeof all[0]) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    if (sums[0] != (float)expected || sums[1] != (float)world)
        rank_wrong(rank, "sums %g of %g ranks, expected %d of %d", sums[0], sums[1], expected, world);
    for (int i = 0; i < world; i++)
        if (all[i] != members[i])
            rank_wrong(rank, "gathers rank %d at %d, expected %d", all[i], i, members[i]);
}

static void use_parts(struct rank *rank)
{
    int step = *(int *)rank->context, members[RANKS_MAX];
    struct comm *part = part_of(rank, rank->comm, step);
    every(rank->world, rank->index % step, step, members);
    // Parts are independent of each other: each makes another number of calls.
    for (int i = 0; part && i <= rank->index % step; i++)
        expect_of_members(rank, part, members);
    // A part of a part.
    struct comm *inner = part ? part_of(rank, part, 2) : NULL;
    if (inner) {
        int inner_members[RANKS_MAX], count = every(comm_world(part), comm_rank(part) % 2, 2, inner_members);
        for (int i = 0; i < count; i++)
            inner_members[i] = members[inner_members[i]];
        expect_of_members(rank, inner, inner_members);
    }
    comm_close(inner);
    comm_close(part);
    every(rank->world, 0, 1, members);
    expect_of_members(rank, rank->comm, members);
}

Test(comm_split, concurrent_parts_are_worlds_of_their_own)
{
    for (int world = 1; world <= 9; world++)
        for (int step = 1; step <= 4; step++)
            ranks_run_well(world, use_parts, &step);
}

static void fail_beside_parts(struct rank *rank)
{
    struct comm *part = part_of(rank, rank->comm, 2);
    if (rank->index == 1) {
        sleep_seconds(0.05);
        comm_abort(rank->comm, "the disk is full");
    }
    double start = clock_now_s();
    // Ranks 0, 2 and 4 wait for rank 1, although it is not of their part.
    int code = ERR_NONE;
    for (int i = 0; code == ERR_NONE && rank->index != 1; i++)
        code = comm_barrier(part);
    rank_keep(rank, start, code);
    comm_close(part);
}

Test(comm_split, concurrent_a_failure_elsewhere_ends_the_waiting_in_a_part)
{
    struct rank ranks[5];
    ranks_run(ranks, 5, fail_beside_parts, NULL);
    for (int i = 0; i < 5; i++)
        cr_expect_str_eq(ranks[i].report, "");
    expect_all_failed(ranks, 5, 1, ERR_PEER, "rank 1 failed: the disk is full");
}

static void disagree(struct rank *rank)
{
    struct comm *part;
    const int all[] = {0, 1, 2}, last[] = {2};
    double start = clock_now_s();
    rank_keep(rank, start,
              rank->index == 2 ? comm_split(rank->comm, last, 1, &part) : comm_split(rank->comm, all, 3, &part));
    // Nobody leaves before all have heard of it: rank 2 is in a call that only it makes.
    if (rank->index != 2)
        comm_barrier(rank->comm);
}

Test(comm_split, concurrent_ranks_that_name_different_parts_are_told_so)
{
    struct rank ranks[3];
    ranks_run(ranks, 3, disagree, NULL);
    for (int i = 0; i < 2; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "rank %d names a part of 3 ranks from 0 on, rank 2 one of 1 from 2 on", i);
        cr_expect_eq(ranks[i].rc, ERR_INTERNAL);
        cr_expect_str_eq(ranks[i].message, expected);
    }
}
