// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks that are threads: contents, order, counting, and the errors of both sides.
#include "ref/comm/comm_test.h"

#include <stdlib.h>

Test(comm_message, concurrent_messages_arrive_whole_and_in_order)
{
    for (int world = 1; world <= 5; world++)
        ranks_run_well(world, send_around, NULL);
}

// One message waits; the second send returns only after the first receive.
static void wait_for_receiver(struct rank *rank)
{
    static _Atomic int received;
    if (rank->index == 0) {
        send_numbered(rank, 1, 0);
        if (received)
            rank_wrong(rank, "a receive before the first send has returned");
        comm_barrier(rank->comm);
        send_numbered(rank, 1, 1);
        if (!received)
            rank_wrong(rank, "two messages wait");
    } else {
        comm_barrier(rank->comm);
        sleep_seconds(0.05);
        received = 1;
        receive_numbered(rank, 0, 0);
        receive_numbered(rank, 0, 1);
    }
}

Test(comm_message, concurrent_one_message_waits_and_the_next_send_for_its_receive)
{
    ranks_run_well(2, wait_for_receiver, NULL);
}

static void count_sent(struct rank *rank)
{
    struct ledger ledger = {0};
    comm_count_in(rank->comm, &ledger);
    comm_count_as(rank->comm, PURPOSE_REDUCE);
    for (int number = 0; number < 6; number++) {
        if (rank->index == 0)
            send_numbered(rank, 1, number);
        else
            receive_numbered(rank, 0, number);
    }
    uint64_t bytes = ledger.moved_bytes[LANE_COLLECTIVE][OPERATION_SEND];
    uint64_t count = ledger.moved_count[LANE_COLLECTIVE][OPERATION_SEND];
    uint64_t expected = rank->index == 0 ? 1 + 8 + 4096 + 100003 + 5 : 0;
    if (bytes != expected || count != (rank->index == 0 ? 6 : 0) || ledger.sent_bytes[PURPOSE_REDUCE] != expected)
        rank_wrong(rank, "%llu bytes in %llu messages", (unsigned long long)bytes, (unsigned long long)count);
}

Test(comm_message, concurrent_the_sender_counts_its_bytes)
{
    ranks_run_well(2, count_sent, NULL);
}

// Rank 1 does what the context says; rank 0 receives message 6 of 8 bytes from it.
static void go_wrong(struct rank *rank)
{
    const char *what = rank->context;
    char buffer[9] = {0};
    double start = clock_now_s();
    if (rank->index == 0) {
        rank_keep(rank, start, comm_receive(rank->comm, 1, 6, buffer, 8));
        return;
    }
    if (strcmp(what, "leave") == 0)
        return;
    sleep_seconds(0.05);
    int rc = ERR_NONE;
    if (strcmp(what, "abort") == 0)
        comm_abort(rank->comm, "the disk is full");
    else if (strcmp(what, "collective") != 0)
        rc = comm_send(rank->comm, 0, strcmp(what, "tag") == 0 ? 7 : 6, buffer, strcmp(what, "size") == 0 ? 9 : 8);
    if (rc == ERR_NONE)
        rc = comm_barrier(rank->comm);
    rank_keep(rank, start, rc);
}

static void expect_failure(const char *what, const char *message, int code)
{
    struct rank ranks[2];
    ranks_run(ranks, 2, go_wrong, (void *)(uintptr_t)what);
    bool left = strcmp(what, "leave") == 0;
    for (int i = 0; i < (left ? 1 : 2); i++) {
        cr_expect_eq(ranks[i].rc, code, "%s, rank %d returned %d", what, i, ranks[i].rc);
        cr_expect_str_eq(ranks[i].message, message, "%s, rank %d: %s", what, i, ranks[i].message);
        cr_expect_lt(ranks[i].seconds, HANG_S);
    }
}

Test(comm_message, concurrent_what_goes_wrong_is_an_error_on_both_ranks)
{
    expect_failure("tag", "rank 0 expects message 6 of 8 bytes from rank 1, which sends message 7 of 8 bytes",
                   ERR_INTERNAL);
    expect_failure("size", "rank 0 expects message 6 of 8 bytes from rank 1, which sends message 6 of 9 bytes",
                   ERR_INTERNAL);
    expect_failure("abort", "rank 1 failed: the disk is full", ERR_PEER);
    expect_failure("collective",
                   "the ranks disagree about collective 1: rank 1 calls barrier, while rank 0 is in receive and waits "
                   "for it",
                   ERR_INTERNAL);
    expect_failure("leave", "rank 1 left while rank 0 was in receive", ERR_PEER);
}

// Nobody will ever receive it.
static void send_to_nobody(struct rank *rank)
{
    char byte = 0;
    if (rank->index == 1)
        return;
    double start = clock_now_s();
    int rc = ERR_NONE;
    for (int i = 0; i < 2 && rc == ERR_NONE; i++)
        rc = comm_send(rank->comm, 1, 0, &byte, 1);
    rank_keep(rank, start, rc);
}

Test(comm_message, concurrent_a_message_to_a_rank_that_has_left_is_an_error)
{
    struct rank ranks[2];
    ranks_run(ranks, 2, send_to_nobody, NULL);
    cr_expect_eq(ranks[0].rc, ERR_PEER);
    cr_expect_str_eq(ranks[0].message, "rank 1 left while rank 0 was in send");
}

static void send_to_itself(struct rank *rank)
{
    char byte = 0;
    rank_keep(rank, 0, comm_send(rank->comm, rank->index, 0, &byte, 1));
}

Test(comm_message, a_rank_is_no_peer_of_itself)
{
    struct rank ranks[1];
    ranks_run(ranks, 1, send_to_itself, NULL);
    cr_expect_eq(ranks[0].rc, ERR_INTERNAL);
    cr_expect_str_eq(ranks[0].message, "rank 0 is no peer of rank 0 in a world of 1");
}
