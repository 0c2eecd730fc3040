// SPDX-License-Identifier: Apache-2.0
// A rank that fails makes every other rank return an error that names the first failure. Never a hang.
#include "ref/comm/comm_failure_test.h"
#include "ref/arithmetic/shadow_test.h"

#include <stdlib.h>

static int gather_bytes(struct rank *rank, size_t count)
{
    char *all = calloc((size_t)rank->world, count);
    int rc = comm_all_gather_equal(rank->comm, all + (size_t)rank->index * count, all, count);
    // Immediately, so that a rank that still read would read freed memory.
    free(all);
    return rc;
}

// Rank 2 gives up while the others wait, in the call that the context names.
static void abort_body(struct rank *rank)
{
    int call = *(const int *)rank->context;
    float number = 1;
    if (rank->index == 2) {
        sleep_seconds(0.05);
        comm_abort(rank->comm, "the disk is full");
        comm_abort(rank->comm, "and a second thing");
        rank_keep(rank, clock_now_s(), comm_barrier(rank->comm));
        return;
    }
    double start = clock_now_s();
    int rc = call == 0   ? comm_barrier(rank->comm)
             : call == 1 ? gather_bytes(rank, 3)
             : call == 2 ? gather_bytes(rank, 100000)
                         : comm_all_reduce(rank->comm, &number, &number, 1, DTYPE_FP32, COMM_SUM);
    rank_keep(rank, start, rc);
    int later = comm_barrier(rank->comm);
    if (later != rc || strcmp(err_message(), rank->message) != 0)
        rank_wrong(rank, "a later call returned %d: %s", later, err_message());
}

Test(comm_failure, concurrent_an_abort_ends_every_present_and_later_call_of_every_rank)
{
    static const int worlds[] = {3, 4, 11};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        for (int call = 0; call < 4; call++) {
            struct rank ranks[RANKS_MAX];
            ranks_run(ranks, worlds[i], abort_body, &call);
            expect_all_failed(ranks, worlds[i], -1, ERR_PEER, "rank 2 failed: the disk is full");
            for (int index = 0; index < worlds[i]; index++)
                cr_expect_str_empty(ranks[index].report);
        }
}

struct beside {
    struct comm *comm;
    double delay_seconds;
};

static void *abort_thread(void *argument)
{
    struct beside *beside = argument;
    sleep_seconds(beside->delay_seconds);
    comm_abort(beside->comm, "by another thread");
    return NULL;
}

// Another thread of rank 0 gives up while the ranks copy from each other, at another moment in each round. Each rank
// frees its buffers as soon as its call returns.
static void abort_beside_body(struct rank *rank)
{
    pthread_t thread;
    struct beside beside = {rank->comm, *(const int *)rank->context * 131e-6};
    if (rank->index == 0 && pthread_create(&thread, NULL, abort_thread, &beside) != 0)
        rank_wrong(rank, "no thread");
    double start;
    int rc;
    do {
        start = clock_now_s();
        rc = gather_bytes(rank, 200000);
    } while (rc == ERR_NONE);
    rank_keep(rank, start, rc);
    if (rank->index == 0)
        pthread_join(thread, NULL);
}

Test(comm_failure, concurrent_buffers_may_be_freed_as_soon_as_a_failed_call_returns)
{
    static const int worlds[] = {2, 3, 8};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        for (int round = 0; round < 40; round++) {
            struct rank ranks[RANKS_MAX];
            ranks_run(ranks, worlds[i], abort_beside_body, &round);
            expect_all_failed(ranks, worlds[i], -1, ERR_PEER, "rank 0 failed: by another thread");
        }
}

// Rank 1 leaves, before or after the others have entered.
static void leave_body(struct rank *rank)
{
    bool leaves_first = *(const bool *)rank->context, leaver = rank->index == 1;
    if (comm_barrier(rank->comm) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    if (leaver != leaves_first)
        sleep_seconds(0.05);
    if (leaver) {
        comm_close(rank->comm);
        rank->closed = true;
        return;
    }
    double start = clock_now_s();
    rank_keep(rank, start, gather_bytes(rank, 10));
}

Test(comm_failure, concurrent_a_rank_that_closes_early_has_failed)
{
    for (int leaves_first = 0; leaves_first < 2; leaves_first++) {
        struct rank ranks[RANKS_MAX];
        ranks_run(ranks, WORLD, leave_body, &(bool){leaves_first});
        expect_all_failed(ranks, WORLD, 1, ERR_PEER, "rank 1 left while rank ");
        expect_all_failed(ranks, WORLD, 1, ERR_PEER, " was in all-gather");
    }
}

// Each rank leaves when it is done, some long before others.
static void close_body(struct rank *rank)
{
    float number = 1;
    if (comm_all_reduce(rank->comm, &number, &number, 1, DTYPE_FP32, COMM_SUM) != ERR_NONE ||
        gather_bytes(rank, 20000) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    sleep_seconds(0.001 * rank->index);
    comm_close(rank->comm);
    rank->closed = true;
}

Test(comm_failure, concurrent_ranks_may_close_one_after_the_other)
{
    for (int world = 1; world <= RANKS_MAX; world++)
        for (int round = 0; round < 10; round++)
            ranks_run_well(world, close_body, NULL);
    comm_close(NULL);
}

static void mistake_body(struct rank *rank)
{
    double start = clock_now_s();
    rank_keep(rank, start, make_mistake(rank->comm, *(const enum mistake *)rank->context));
    if (comm_barrier(rank->comm) == ERR_NONE)
        rank_wrong(rank, "a call after the mistake went well");
}

Test(comm_failure, concurrent_calls_that_do_not_match_fail_on_every_rank_and_both_are_named)
{
    for (enum mistake mistake = 0; mistake < MISTAKE_COUNT; mistake++) {
        struct rank ranks[RANKS_MAX];
        ranks_run(ranks, WORLD, mistake_body, &mistake);
        expect_all_failed(ranks, WORLD, -1, ERR_INTERNAL, mistake_messages[mistake]);
        for (int index = 0; index < WORLD; index++)
            cr_expect_str_empty(ranks[index].report);
    }
}

static const char *const bad_calls[] = {
    "all-reduce: bytes have no sum",
    "all-reduce: send and recv overlap",
    "all-reduce: a maximum needs buffers in host memory",
    "reduce-scatter: recv overlaps send",
    "reduce-scatter: bytes have no sum",
    "all-gather: send overlaps recv",
    "all-to-all: send and recv overlap",
    "broadcast: the root is not a rank of this world",
};

static int bad_call(struct comm *comm, int which)
{
    static const size_t fours[WORLD] = {4, 4, 4, 4}, offsets[WORLD] = {0, 4, 8, 12};
    float buffer[32] = {0};
    int rc;
    switch (which) {
    case 0:
        return comm_all_reduce(comm, buffer, buffer, 4, DTYPE_BYTE, COMM_SUM);
    case 1:
        return comm_all_reduce(comm, buffer, buffer + 3, 4, DTYPE_FP32, COMM_SUM);
    case 2:  // into memory of an accelerator
        TRY(accelerator_claim(&shadow_accelerator, buffer + 16, 16 * sizeof(float)));
        rc = comm_all_reduce(comm, buffer, buffer + 16, 4, DTYPE_FP32, COMM_MAX);
        accelerator_disclaim(buffer + 16);
        return rc;
    case 3:
        return comm_reduce_scatter(comm, buffer, buffer, fours, offsets, DTYPE_FP32);
    case 4:
        return comm_reduce_scatter(comm, buffer, buffer + 16, fours, offsets, DTYPE_BYTE);
    case 5:
        return comm_all_gather(comm, buffer + 9, buffer, fours, offsets, DTYPE_FP32);
    case 6:
        return comm_all_to_all(comm, buffer, fours, offsets, buffer, fours, offsets, DTYPE_FP32);
    default:
        return comm_broadcast(comm, buffer, 4, WORLD);
    }
}

static void bad_call_body(struct rank *rank)
{
    int which = *(const int *)rank->context;
    double start = clock_now_s();
    rank_keep(rank, start, rank->index == 2 ? bad_call(rank->comm, which) : comm_barrier(rank->comm));
}

Test(comm_failure, a_call_that_cannot_be_made_fails_for_every_rank)
{
    for (int i = 0; i < (int)(sizeof bad_calls / sizeof bad_calls[0]); i++) {
        struct rank ranks[RANKS_MAX];
        ranks_run(ranks, WORLD, bad_call_body, &i);
        cr_expect_eq(ranks[2].rc, ERR_INTERNAL);
        cr_expect(strstr(ranks[2].message, bad_calls[i]), "%s", ranks[2].message);
        expect_all_failed(ranks, WORLD, 2, ERR_PEER, "rank 2 failed: ");
        expect_all_failed(ranks, WORLD, 2, ERR_PEER, bad_calls[i]);
    }
}

static void late_body(struct rank *rank)
{
    if (rank->index == 5)
        sleep_seconds(0.3);
    if (comm_barrier(rank->comm) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

Test(comm_failure, ranks_that_wait_long_do_not_burn_processors)
{
    double before = processor_seconds();
    ranks_run_well(11, late_body, NULL);
    cr_expect_lt(processor_seconds() - before, 0.1);
}

Test(comm_failure, a_world_without_ranks_is_refused)
{
    struct comm *comm;
    cr_expect_eq(comm_local_open(0, &comm), ERR_USAGE);
}
