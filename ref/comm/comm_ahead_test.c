// SPDX-License-Identifier: Apache-2.0
// Small messages among threads: many calls one after the other, and roots of broadcasts that return before the others
// have called.
#include "ref/comm/comm_case_test.h"
#include "ref/comm/comm_meet.h"

Test(comm_ahead, concurrent_calls_of_all_sizes_and_roots_follow_each_other)
{
    for (EACH_WORLD(i))
        ranks_run_well(many_worlds[i], many_calls, NULL);
}

static void wait_until(_Atomic int *value, int wanted)
{
    for (int ms = 0; ms < HANG_S * 1000 && *value < wanted; ms++)
        sleep_seconds(1e-3);
}

// The root makes almost as many broadcasts as there are places before another rank makes one, then more of them.
static void root_ahead(struct rank *rank)
{
    enum { ALONE = MEET_RING - 1, MORE = 200 };
    _Atomic int *made = rank->context, *received = made + 1;
    int root = rank->world - 1;
    if (rank->index != root)
        wait_until(made, ALONE);
    if (*made < ALONE && rank->index != root)
        rank_wrong(rank, "the root made %d broadcasts alone", *made);
    for (int i = 0; i < ALONE + MORE; i++) {
        int message[2] = {rank->index == root ? i : -1, 3 * i};
        if (comm_broadcast(rank->comm, message, sizeof message, root) != ERR_NONE)
            rank_wrong(rank, "%s", err_message());
        if (message[0] != i)
            rank_wrong(rank, "broadcast %d brought %d", i, message[0]);
        *made += rank->index == root;
    }
    if (rank->index == root) {
        comm_close(rank->comm);
        rank->closed = true;
        return;
    }
    ++*received;
    wait_until(received, root);
    rank_keep(rank, clock_now_s(), comm_barrier(rank->comm));
}

Test(comm_ahead, concurrent_a_root_goes_on_and_may_leave_before_the_others_come)
{
    for (EACH_WORLD(i)) {
        if (many_worlds[i] == 1)
            continue;
        struct rank ranks[RANKS_MAX];
        _Atomic int counts[2] = {0};
        ranks_run(ranks, many_worlds[i], root_ahead, counts);
        for (int index = 0; index < many_worlds[i]; index++)
            cr_expect_str_empty(ranks[index].report, "world %d, rank %d: %s", many_worlds[i], index,
                                ranks[index].report);
        expect_all_failed(ranks, many_worlds[i] - 1, -1, ERR_PEER, " left while rank ");
    }
}

// Rank 0 broadcasts in the call that the context names to ranks that expect it of rank 2, as does rank 2. Nobody waits
// for rank 0.
struct other_root {
    int call, calls;
};

static void other_root(struct rank *rank)
{
    const struct other_root *other = rank->context;
    char message[8] = "";
    double start = clock_now_s();
    int rc = ERR_NONE;
    for (int i = 0; i < other->calls && rc == ERR_NONE; i++)
        rc = comm_broadcast(rank->comm, message, sizeof message, rank->index == 0 && i == other->call ? 0 : 2);
    rank_keep(rank, start, rc == ERR_NONE ? comm_barrier(rank->comm) : rc);
}

Test(comm_ahead, concurrent_a_later_call_finds_ranks_that_took_another_for_the_root)
{
    static const struct other_root trials[] = {{0, 1}, {1, 4}};
    static const char *const said[] = {
        "the ranks disagree about collective 1: rank 0 calls broadcast of 8 bytes from rank 0, rank 1 broadcast of 8 "
        "bytes from rank 2",
        "the ranks disagree about "};
    for (int i = 0; i < 2; i++) {
        struct rank ranks[3];
        ranks_run(ranks, 3, other_root, (void *)&trials[i]);
        expect_all_failed(ranks, 3, -1, ERR_INTERNAL, said[i]);
    }
}

// Another rank fails while the root is ahead: its next call, and every later one, says so.
static void fails_behind(struct rank *rank)
{
    _Atomic int *made = rank->context;
    char message[8] = "";
    int rc = ERR_NONE;
    if (rank->index == 1) {
        wait_until(made, 3);
        comm_abort(rank->comm, "no room");
    }
    double start = clock_now_s();
    for (int i = 0; i < 1000000 && rc == ERR_NONE; i++) {
        rc = comm_broadcast(rank->comm, message, sizeof message, 0);
        *made += rank->index == 0;
    }
    rank_keep(rank, start, rc);
}

Test(comm_ahead, concurrent_a_root_that_is_ahead_learns_of_a_failure)
{
    struct rank ranks[3];
    _Atomic int made = 0;
    ranks_run(ranks, 3, fails_behind, &made);
    expect_all_failed(ranks, 3, -1, ERR_PEER, "rank 1 failed: no room");
}
