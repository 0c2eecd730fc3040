// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks that are threads: contents, order, counting, and the errors of both sides.
#include "ref/comm/comm_failure_test.h"

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

static void go_wrong(struct rank *rank)
{
    double start = clock_now_s();
    rank_keep(rank, start, provoke_message(rank->comm, rank->context));
}

Test(comm_message, concurrent_what_goes_wrong_is_an_error_on_both_ranks)
{
    struct rank ranks[2];
    for (int i = 0; i < MESSAGE_FAILURES; i++) {
        ranks_run(ranks, 2, go_wrong, (void *)(uintptr_t)message_failures[i].word);
        expect_all_failed(ranks, 2, -1, message_failures[i].code, message_failures[i].said);
    }
    ranks_run(ranks, 2, go_wrong, (void *)(uintptr_t) "message-leave");
    expect_all_failed(ranks, 2, 1, ERR_PEER, "rank 1 left while rank 0 was in receive");
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
