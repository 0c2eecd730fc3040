// SPDX-License-Identifier: Apache-2.0
// Slots in which bundles take turns: who gets which, what they hold, and how large they are; and how shares are cut in
// sub-groups.
#include "ref/partition/slots.h"

#include "base/err.h"
#include "ref/tier/tier.h"
#include "ref/tier/tier_nvme.h"
#include "ref/optimizer/update.h"

#include <criterion/criterion.h>

// Bundles 0 to 3 take turns, the last of them is persistent; 4 is tied; 5 is frozen. Two shares each.
static struct bundle bundles[] = {
    {.count = 100, .padded_count = 100, .share_count = 50, .low_unit = 2, .high_unit = 2},
    {.count = 2999, .padded_count = 3000, .share_count = 1500, .low_unit = 1, .high_unit = 1},
    {.count = 40, .padded_count = 40, .share_count = 20, .low_unit = 1, .high_unit = 1},
    {.count = 9000, .padded_count = 9000, .share_count = 4500, .low_unit = 0, .high_unit = 0, .persistent = true},
    {.count = 7000, .padded_count = 7000, .share_count = 3500, .low_unit = 0, .high_unit = 2, .tied = true},
    {.count = 60, .padded_count = 60, .share_count = 30, .low_unit = 1, .high_unit = 1, .frozen = true},
};
static const struct layout layout = {.shares = 2, .bundle_count = 6, .trainable_count = 5, .bundles = bundles};

static struct ledger ledger;
static struct tier *tier;
static struct slots slots;

static void open_tier(void)
{
    cr_assert_eq(tier_open(&ledger, &(struct tier_setting){0}, &tier), ERR_NONE);
}

static void close_tier(void)
{
    slots_close(&slots);
    tier_close(tier);
}

static const struct slots_rule WHOLE = {
    .bundle_count = 6, .skip_persistent = true, .element_bytes = 2, .where = TIER_DEVICE, .name = "whole"};
static const struct slots_rule SHARES = {
    .bundle_count = 6, .shares = true, .element_bytes = 2, .where = TIER_HOST, .name = "shares"};
static const struct slots_rule TRAINABLE = {
    .bundle_count = 5, .element_bytes = 4, .where = TIER_DEVICE, .name = "trainable"};

Test(slots, sizes_and_counts_are_those_of_the_bundles_that_take_turns)
{
    cr_expect_eq(slots_turns(&layout, &WHOLE), 4);
    cr_expect_eq(slots_turns(&layout, &SHARES), 5);
    cr_expect_eq(slots_turns(&layout, &TRAINABLE), 4);
    cr_expect_eq(slots_largest_bytes(&layout, &WHOLE), 6000);
    cr_expect_eq(slots_largest_bytes(&layout, &SHARES), 12288);
    cr_expect_eq(slots_largest_bytes(&layout, &TRAINABLE), 36000);
    // Shares fill whole blocks of NVMe.
    cr_expect_eq(slots_bytes(&layout, &SHARES, 0), 4096);
    cr_expect_eq(slots_bytes(&layout, &SHARES, 4), 8192);
    struct bundle block = {.count = 4096, .padded_count = 4096, .share_count = 2048};
    cr_expect_eq(slots_bytes(&(struct layout){.shares = 2, .bundle_count = 1, .bundles = &block}, &SHARES, 0), 4096);
    cr_expect_eq(slots_bytes(&layout, &WHOLE, 1), 6000);
    // Unit 1 uses three at once, unit 0 none but the persistent one; the tied one is not counted.
    cr_expect_eq(slots_least(&layout, &WHOLE, 3), 3);
    cr_expect_eq(slots_least(&layout, &WHOLE, 1), 0);
    cr_expect_eq(slots_least(&layout, &SHARES, 1), 1);
    cr_expect_eq(slots_least(&layout, &TRAINABLE, 3), 2);
    cr_expect_eq(slots_least(&layout, &TRAINABLE, 0), 0);
}

Test(slots, memory_is_the_slots_and_the_tied_ones_own, .init = open_tier, .fini = close_tier)
{
    cr_assert_eq(slots_open(&layout, &WHOLE, 3, tier, &slots), ERR_NONE);
    cr_expect_eq(ledger.held_bytes[TIER_DEVICE][KIND_STAGING], 3 * 6000 + 14000);
    cr_expect_eq(ledger.tier_bytes[TIER_HOST], 0);
    slots_close(&slots);
    cr_assert_eq(slots_open(&layout, &SHARES, 2, tier, &slots), ERR_NONE);
    cr_expect_eq(ledger.held_bytes[TIER_HOST][KIND_STAGING], 2 * 12288 + 8192);
}

Test(slots, empty_ones_are_taken_first_then_the_one_asked_for_longest_ago, .init = open_tier, .fini = close_tier)
{
    cr_assert_eq(slots_open(&layout, &WHOLE, 2, tier, &slots), ERR_NONE);
    cr_expect_eq(slots_victim(&slots), -1);
    char *zero = slots_take(&slots, 0), *one = slots_take(&slots, 1);
    cr_assert(zero != one);
    cr_expect_geq(one > zero ? one - zero : zero - one, 6000);
    cr_expect_eq(slots_find(&slots, 0), zero);
    cr_expect_eq(slots_find(&slots, 2), NULL);
    // 1 is the one asked for longest ago; to look is not to ask.
    cr_expect_eq(slots_look(&slots, 1), one);
    cr_expect_eq(slots_victim(&slots), 1);
    cr_expect_eq(slots_take(&slots, 2), one);
    cr_expect_eq(slots_find(&slots, 1), NULL);
    cr_expect_eq(slots_look(&slots, 0), zero);
    cr_expect_eq(slots_victim(&slots), 0);
    // A dropped slot is empty, and goes before all others.
    slots_find(&slots, 0);
    slots_drop(&slots, 0);
    cr_expect_eq(slots_look(&slots, 0), NULL);
    cr_expect_eq(slots_victim(&slots), -1);
    cr_expect_eq(slots_take(&slots, 1), zero);
    // What is taken again leaves its old slot.
    cr_expect_eq(slots_take(&slots, 2), one);
    cr_expect_eq(slots_look(&slots, 1), zero);
}

// Of two empty slots the one used longest ago: the executor need not wait for its last use.
Test(slots, of_empty_ones_the_one_used_longest_ago, .init = open_tier, .fini = close_tier)
{
    cr_assert_eq(slots_open(&layout, &WHOLE, 3, tier, &slots), ERR_NONE);
    void *zero = slots_take(&slots, 0), *one = slots_take(&slots, 1), *two = slots_take(&slots, 2);
    slots_find(&slots, 0);
    slots_empty(&slots);
    cr_expect_eq(slots_take(&slots, 5), one);
    cr_expect_eq(slots_take(&slots, 0), two);
    cr_expect_eq(slots_take(&slots, 1), zero);
}

Test(slots, a_tied_bundle_has_a_slot_of_its_own, .init = open_tier, .fini = close_tier)
{
    cr_assert_eq(slots_open(&layout, &WHOLE, 1, tier, &slots), ERR_NONE);
    cr_expect_eq(slots_find(&slots, 4), NULL);
    void *tied = slots_take(&slots, 4);
    for (int bundle = 0; bundle < 3; bundle++) {
        cr_expect_neq(slots_take(&slots, bundle), tied);
        cr_expect_eq(slots_find(&slots, 4), tied);
        cr_expect_eq(slots_victim(&slots), bundle);
    }
    slots_drop(&slots, 4);
    cr_expect_eq(slots_look(&slots, 4), NULL);
    cr_expect_eq(slots_take(&slots, 4), tied);
    slots_empty(&slots);
    cr_expect_eq(slots_look(&slots, 4), NULL);
    cr_expect_eq(slots_look(&slots, 2), NULL);
}

// Sub-groups begin on blocks of NVMe in 16 bits and in 32: 2048 elements. A share of 3500, 4500, ... elements.
Test(slots, sub_groups_are_whole_granules_or_the_whole_share)
{
    static const size_t sizes[][3] = {
        // wanted, of a share of 3500, of a share of 4500
        {0, 3500, 4500},    {1, 2048, 2048},    {2047, 2048, 2048}, {2048, 2048, 2048}, {2049, 4096, 4096},
        {3499, 4096, 4096}, {3500, 3500, 4096}, {3501, 3500, 4096}, {4096, 3500, 4096}, {4500, 3500, 4500},
        {1000000, 3500, 4500}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct config config = {.sub_group_size = sizes[i][0]};
        const struct optimizer optimizer = {.config = &config, .layout = &layout};
        cr_expect_eq(optimizer_sub_group_count(&optimizer, 4), sizes[i][1], "%zu", sizes[i][0]);
        cr_expect_eq(optimizer_sub_group_count(&optimizer, 3), sizes[i][2], "%zu", sizes[i][0]);
        size_t largest = sizes[i][1] > sizes[i][2] ? sizes[i][1] : sizes[i][2];
        cr_expect_eq(optimizer_buffer_bytes(&optimizer), 4 * largest, "%zu", sizes[i][0]);
    }
}
