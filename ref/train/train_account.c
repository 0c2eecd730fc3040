// SPDX-License-Identifier: Apache-2.0
// The accounting of a run: every line of the ledger next to the formula's.
#include "ref/train/train_internal.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

// The formula of the whole run.
static struct formula_moved moved_in_run(const struct train_rank *rank)
{
    const struct optimizer *optimizer = &rank->stage.optimizer;
    const struct formula *formula = &rank->formula;
    const struct {
        const struct formula_moved *moved;
        uint64_t times;
    } parts[] = {
        {&formula->step, optimizer->step + optimizer->skipped - rank->resumed_step},
        {&formula->applied, optimizer->step - rank->resumed_applied},
        {&formula->rescanned, optimizer->rescanned},
        {&formula->unhanded,
         optimizer->step + optimizer->skipped - rank->resumed_step - rank->stage.updates.handed_over},
        {&formula->reread, optimizer->reread},
        {&formula->redone, optimizer->redone},
        {&formula->returned, optimizer->returned},
    };
    struct formula_moved sum = {0};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (int lane = 0; lane < LANE_COUNT; lane++)
            for (int operation = 0; operation < OPERATION_COUNT; operation++)
                sum.bytes[lane][operation] += parts[i].times * parts[i].moved->bytes[lane][operation];
        for (int group = 0; group < GROUP_COUNT; group++)
            sum.group_bytes[group] += parts[i].times * parts[i].moved->group_bytes[group];
    }
    return sum;
}

void train_account(struct train_rank *rank)
{
    const struct formula *formula = &rank->formula;
    const struct formula_moved expected = moved_in_run(rank);
    struct train_totals *totals = &rank->totals;
    bool equal = true;
    *totals = (struct train_totals){
        .unlocked_bytes = tier_unlocked_bytes(rank->tier),
        .host_hits = rank->stage.prefetcher.host_hits,
        .host_misses = rank->stage.prefetcher.host_misses,
    };
    for (int tier = 0; tier < TIER_COUNT; tier++)
        for (int kind = 0; kind < KIND_COUNT; kind++) {
            uint64_t held = rank->ledger.held_bytes[tier][kind];
            equal &= held == formula->held_bytes[tier][kind];
            if (rank->rank != 0)
                continue;
            rank->result->held_bytes[tier][kind] = held;
            rank->result->formula_held_bytes[tier][kind] = formula->held_bytes[tier][kind];
        }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int operation = 0; operation < OPERATION_COUNT; operation++) {
            uint64_t moved = rank->ledger.moved_bytes[lane][operation];
            equal &= moved == expected.bytes[lane][operation];
            totals->moved_bytes[lane][operation] = moved;
            totals->formula_moved_bytes[lane][operation] = expected.bytes[lane][operation];
        }
    for (int group = 0; group < GROUP_COUNT; group++) {
        uint64_t sent = rank->ledger.group_bytes[group];
        equal &= sent == expected.group_bytes[group];
        totals->group_bytes[group] = sent;
        totals->formula_group_bytes[group] = expected.group_bytes[group];
    }
    totals->accounting_differs = !equal;
}

int train_add_totals(struct train_rank *rank)
{
    enum { NUMBER_COUNT = sizeof(struct train_totals) / sizeof(uint64_t) };
    int world = comm_world(rank->comm);
    uint64_t(*all)[NUMBER_COUNT] = malloc((size_t)world * sizeof *all), *sum = (uint64_t *)&rank->totals;
    if (!all)
        return err_set(ERR_MEMORY, "no memory for the totals of %d ranks", world);
    comm_count_in(rank->comm, NULL);
    int rc = comm_all_gather_equal(rank->comm, &rank->totals, all, sizeof rank->totals);
    memset(sum, 0, sizeof rank->totals);
    for (int i = 0; rc == ERR_NONE && i < world; i++)
        for (int k = 0; k < NUMBER_COUNT; k++)
            sum[k] += all[i][k];
    free(all);
    return rc;
}

void train_keep_totals(const struct train_totals *totals, struct train_result *out)
{
    out->accounting_equal = totals->accounting_differs == 0;
    out->unlocked_bytes = totals->unlocked_bytes;
    out->host_hits = totals->host_hits;
    out->host_misses = totals->host_misses;
    memcpy(out->moved_bytes, totals->moved_bytes, sizeof out->moved_bytes);
    memcpy(out->formula_moved_bytes, totals->formula_moved_bytes, sizeof out->formula_moved_bytes);
    memcpy(out->group_bytes, totals->group_bytes, sizeof out->group_bytes);
    memcpy(out->formula_group_bytes, totals->formula_group_bytes, sizeof out->formula_group_bytes);
}
