// SPDX-License-Identifier: Apache-2.0
#include "ref/ledger/ledger.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>

enum { THREADS = 4, ROUNDS = 400000 };

Test(ledger, holds_and_drops_per_tier_and_kind)
{
    struct ledger ledger = {0};
    ledger_hold(&ledger, TIER_DEVICE, KIND_PARAMETER, 100);
    ledger_hold(&ledger, TIER_DEVICE, KIND_PADDING, 12);
    ledger_hold(&ledger, TIER_HOST, KIND_PARAMETER, 7);
    ledger_drop(&ledger, TIER_DEVICE, KIND_PARAMETER, 40);
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_PARAMETER], 60);
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_PADDING], 12);
    cr_assert_eq(ledger.held_bytes[TIER_HOST][KIND_PARAMETER], 7);
    cr_assert_eq(ledger.tier_bytes[TIER_DEVICE], 72);
    cr_assert_eq(ledger.tier_bytes[TIER_HOST], 7);
}

Test(ledger, peak_is_the_most_there_ever_was_of_all_kinds_together)
{
    struct ledger ledger = {0};
    ledger_hold(&ledger, TIER_DEVICE, KIND_PARAMETER, 100);
    ledger_hold(&ledger, TIER_DEVICE, KIND_STAGING, 50);
    ledger_drop(&ledger, TIER_DEVICE, KIND_STAGING, 50);
    ledger_hold(&ledger, TIER_DEVICE, KIND_GRADIENT, 30);
    cr_assert_eq(ledger.tier_peak_bytes[TIER_DEVICE], 150);
    ledger_hold(&ledger, TIER_DEVICE, KIND_GRADIENT, 21);
    cr_assert_eq(ledger.tier_peak_bytes[TIER_DEVICE], 151);
    cr_assert_eq(ledger.tier_peak_bytes[TIER_HOST], 0);
}

Test(ledger, moves_add_bytes_and_calls)
{
    struct ledger ledger = {0};
    ledger_move(&ledger, LANE_COLLECTIVE, OPERATION_ALL_GATHER, 1000);
    ledger_move(&ledger, LANE_COLLECTIVE, OPERATION_ALL_GATHER, 24);
    ledger_move(&ledger, LANE_COLLECTIVE, OPERATION_REDUCE_SCATTER, 0);
    cr_assert_eq(ledger.moved_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER], 1024);
    cr_assert_eq(ledger.moved_count[LANE_COLLECTIVE][OPERATION_ALL_GATHER], 2);
    cr_assert_eq(ledger.moved_count[LANE_COLLECTIVE][OPERATION_REDUCE_SCATTER], 1);
    cr_assert_eq(ledger.moved_count[LANE_COMPUTE][OPERATION_ALL_GATHER], 0);
}

Test(ledger, collectives_are_counted_by_purpose_and_by_group_too)
{
    struct ledger ledger = {0};
    ledger_send(&ledger, GROUP_SHARD, PURPOSE_REDUCE, OPERATION_REDUCE_SCATTER, 1, 1000);
    ledger_send(&ledger, GROUP_REPLICATE, PURPOSE_REDUCE, OPERATION_ALL_REDUCE, 1, 24);
    ledger_send(&ledger, GROUP_SHARD, PURPOSE_GATHER, OPERATION_ALL_GATHER, 3, 7);
    cr_assert_eq(ledger.sent_bytes[PURPOSE_REDUCE], 1024);
    cr_assert_eq(ledger.sent_count[PURPOSE_REDUCE], 2);
    cr_assert_eq(ledger.sent_bytes[PURPOSE_GATHER], 7);
    cr_assert_eq(ledger.sent_count[PURPOSE_OTHER], 0);
    cr_assert_eq(ledger.sent_count[PURPOSE_GATHER], 3);
    cr_assert_eq(ledger.group_bytes[GROUP_SHARD], 1007);
    cr_assert_eq(ledger.group_bytes[GROUP_REPLICATE], 24);
    cr_assert_eq(ledger.group_bytes[GROUP_WORLD], 0);
    cr_assert_eq(ledger.moved_bytes[LANE_COLLECTIVE][OPERATION_ALL_REDUCE], 24);
    cr_assert_eq(ledger.moved_count[LANE_COLLECTIVE][OPERATION_REDUCE_SCATTER], 1);
}

Test(ledger, null_counts_nothing)
{
    ledger_send(NULL, GROUP_WORLD, PURPOSE_REDUCE, OPERATION_ALL_REDUCE, 1, 3);
    ledger_hold(NULL, TIER_DEVICE, KIND_PARAMETER, 1);
    ledger_drop(NULL, TIER_DEVICE, KIND_PARAMETER, 2);
    ledger_move(NULL, LANE_COMPUTE, OPERATION_COPY, 3);
}

Test(ledger, dropping_more_of_a_kind_than_is_held_is_fatal, .signal = SIGABRT)
{
    struct ledger ledger = {0};
    ledger_hold(&ledger, TIER_DEVICE, KIND_PARAMETER, 100);
    ledger_hold(&ledger, TIER_DEVICE, KIND_GRADIENT, 10);
    ledger_drop(&ledger, TIER_DEVICE, KIND_GRADIENT, 11);
}

Test(ledger, every_enumerator_has_a_name_of_its_own)
{
    const char *names[TIER_COUNT + KIND_COUNT + LANE_COUNT + OPERATION_COUNT + GROUP_COUNT];
    size_t count = 0;
    for (int i = 0; i < TIER_COUNT; i++)
        names[count++] = ledger_tier_name((enum ledger_tier)i);
    for (int i = 0; i < KIND_COUNT; i++)
        names[count++] = ledger_kind_name((enum ledger_kind)i);
    for (int i = 0; i < LANE_COUNT; i++)
        names[count++] = ledger_lane_name((enum lane)i);
    for (int i = 0; i < OPERATION_COUNT; i++)
        names[count++] = ledger_operation_name((enum ledger_operation)i);
    for (int i = 0; i < GROUP_COUNT; i++)
        names[count++] = ledger_group_name((enum ledger_group)i);
    for (size_t i = 0; i < count; i++) {
        cr_assert_not_null(names[i]);
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(names[i], names[j]);
    }
}

static pthread_barrier_t start;

// Each thread holds 3 bytes at a time and moves 5, so that lost updates show in the totals.
static void *hold_move_drop(void *argument)
{
    struct ledger *ledger = argument;
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        ledger_hold(ledger, TIER_DEVICE, KIND_STAGING, 3);
        ledger_move(ledger, LANE_COLLECTIVE, OPERATION_COPY, 5);
        ledger_drop(ledger, TIER_DEVICE, KIND_STAGING, 3);
    }
    ledger_hold(ledger, TIER_DEVICE, KIND_STAGING, 3);
    return NULL;
}

Test(ledger, concurrent_threads_lose_no_count)
{
    struct ledger ledger = {0};
    pthread_t threads[THREADS];
    cr_assert_eq(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, hold_move_drop, &ledger), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_STAGING], 3 * THREADS);
    cr_assert_eq(ledger.tier_bytes[TIER_DEVICE], 3 * THREADS);
    cr_assert_eq(ledger.tier_peak_bytes[TIER_DEVICE], 3 * THREADS);
    cr_assert_eq(ledger.moved_bytes[LANE_COLLECTIVE][OPERATION_COPY], 5ull * THREADS * ROUNDS);
    cr_assert_eq(ledger.moved_count[LANE_COLLECTIVE][OPERATION_COPY], 1ull * THREADS * ROUNDS);
}
