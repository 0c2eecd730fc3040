// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for each other in different communicators end with an error; ranks that only wait long do not.
#include "ref/comm/comm_failure_test.h"

// A part of the world for those ranks, which all others leave alone; every rank calls it.
static struct comm *part_of(struct rank *rank, const int members[], int count, enum ledger_group group)
{
    struct comm *part = NULL;
    const int alone[] = {rank->index};
    bool member = false;
    for (int i = 0; i < count; i++)
        member |= members[i] == rank->index;
    if (comm_split(rank->comm, member ? members : alone, member ? count : 1, &part) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    else
        comm_count_for(part, group);
    return part;
}

// All ranks fail with one of the ends of a circle's description.
static void expect_circle(const struct rank ranks[], int world, const struct waiting circle[], int count)
{
    for (int i = 0; i < world; i++) {
        bool known = false;
        for (int k = 0; k < count; k++)
            known |= strcmp(ranks[i].message, circle_text(circle, count, k)) == 0;
        cr_expect_str_eq(ranks[i].report, "");
        cr_expect_eq(ranks[i].rc, ERR_INTERNAL, "rank %d returned %d", i, ranks[i].rc);
        cr_expect(known, "rank %d says \"%s\"", i, ranks[i].message);
        cr_expect_lt(ranks[i].seconds, 20);
    }
}

// Both ranks are members of both parts, and enter them in another order.
static void cross(struct rank *rank)
{
    const int both[] = {0, 1};
    struct comm *shard = part_of(rank, both, 2, GROUP_SHARD), *tensor = part_of(rank, both, 2, GROUP_TENSOR);
    float number = 1;
    double start = clock_now_s();
    rank_keep(rank, start,
              rank->index == 0 ? comm_barrier(shard)
                               : comm_all_reduce(tensor, &number, &number, 1, DTYPE_FP32, COMM_SUM));
    comm_close(tensor);
    comm_close(shard);
}

Test(comm_deadlock, concurrent_two_communicators_in_another_order_are_named)
{
    static const struct waiting circle[] = {{0, "barrier among ranks 0 1 (shard)"},
                                            {1, "all-reduce among ranks 0 1 (tensor)"}};
    struct rank ranks[2];
    ranks_run(ranks, 2, cross, NULL);
    expect_circle(ranks, 2, circle, 2);
}

// Ranks 1, 2 and 4 wait around a ring of pairs; ranks 0 and 3 wait for one of them, in the world.
static void ring(struct rank *rank)
{
    static const int pairs[][2] = {{1, 2}, {2, 4}, {1, 4}};
    struct comm *parts[3], *enters = rank->comm;
    for (int i = 0; i < 3; i++)
        parts[i] = part_of(rank, pairs[i], 2, GROUP_WORLD);
    enters = rank->index == 1 ? parts[0] : rank->index == 2 ? parts[1] : rank->index == 4 ? parts[2] : enters;
    double start = clock_now_s();
    rank_keep(rank, start, comm_barrier(enters));
    for (int i = 0; i < 3; i++)
        comm_close(parts[i]);
}

Test(comm_deadlock, concurrent_a_ring_of_groups_is_named_to_all_ranks)
{
    static const struct waiting circle[] = {
        {1, "barrier among ranks 1 2"}, {2, "barrier among ranks 2 4"}, {4, "barrier among ranks 1 4"}};
    struct rank ranks[5];
    ranks_run(ranks, 5, ring, NULL);
    expect_circle(ranks, 5, circle, 3);
}

// Rank 0 waits for a message among both, and rank 1 for rank 0 in a part; or both wait for messages.
static void receive_beside(struct rank *rank)
{
    const int both[] = {0, 1};
    bool messages_only = *(const bool *)rank->context;
    struct comm *part = part_of(rank, both, 2, GROUP_PIPELINE);
    char message[8];
    double start = clock_now_s();
    rank_keep(rank, start,
              rank->index == 0 || messages_only ? comm_receive(part, 1 - rank->index, 7, message, sizeof message)
                                                : comm_barrier(rank->comm));
    comm_close(part);
}

Test(comm_deadlock, concurrent_messages_that_nobody_sends_are_named)
{
    static const char receive[] = "receive among ranks 0 1 (pipeline)";
    static const struct waiting circles[2][2] = {{{0, receive}, {1, "barrier among ranks 0 1"}},
                                                 {{0, receive}, {1, receive}}};
    for (int messages_only = 0; messages_only <= 1; messages_only++) {
        struct rank ranks[2];
        ranks_run(ranks, 2, receive_beside, &(bool){messages_only});
        expect_circle(ranks, 2, circles[messages_only], 2);
    }
}

struct waiter {
    struct comm *part;
    int rc;
};

static void *run_lane(void *argument)
{
    struct waiter *lane = argument;
    lane->rc = comm_barrier(lane->part);
    lane->rc = lane->rc == ERR_NONE ? comm_barrier(lane->part) : lane->rc;
    return NULL;
}

// Each rank has a thread for each of two parts. In the first part both wait long for rank 1, whose thread computes; in
// the second one rank 1 waits for rank 0, whose thread does. Nobody waits in a circle.
static void compute_beside(struct rank *rank)
{
    const int both[] = {0, 1};
    struct comm *parts[2] = {part_of(rank, both, 2, GROUP_SHARD), part_of(rank, both, 2, GROUP_TENSOR)};
    int slow = rank->index == 0 ? 1 : 0;
    struct waiter lane = {.part = parts[1 - slow]};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_lane, &lane) != 0 || comm_barrier(parts[slow]) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    sleep_seconds(3.5);
    rank_keep(rank, clock_now_s(), comm_barrier(parts[slow]));
    pthread_join(thread, NULL);
    if (lane.rc != ERR_NONE)
        rank_wrong(rank, "the lane's barrier returned %d", lane.rc);
    comm_close(parts[1]);
    comm_close(parts[0]);
}

Test(comm_deadlock, concurrent_threads_that_compute_for_long_are_no_circle)
{
    struct rank ranks[2];
    ranks_run(ranks, 2, compute_beside, NULL);
    for (int i = 0; i < 2; i++) {
        cr_expect_str_eq(ranks[i].report, "");
        cr_expect_eq(ranks[i].rc, ERR_NONE, "%s", ranks[i].message);
    }
}
