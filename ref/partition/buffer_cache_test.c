// SPDX-License-Identifier: Apache-2.0
// The buffer cache: which buffer a bucket gets, eviction and sizes; and how shards are cut into sub-groups.
#include "ref/partition/buffer_cache.h"

#include "base/err.h"
#include "ref/tier/tier.h"
#include "ref/optimizer/optimizer.h"

#include <criterion/criterion.h>

// Buckets 0 to 3 take turns, the last of them is persistent; 4 is tied; 5 is frozen. Two shards each.
static struct bucket buckets[] = {
    {.count = 100, .padded_count = 100, .shard_elements = 50, .low_layer = 2, .high_layer = 2},
    {.count = 2999, .padded_count = 3000, .shard_elements = 1500, .low_layer = 1, .high_layer = 1},
    {.count = 40, .padded_count = 40, .shard_elements = 20, .low_layer = 1, .high_layer = 1},
    {.count = 9000, .padded_count = 9000, .shard_elements = 4500, .low_layer = 0, .high_layer = 0, .persistent = true},
    {.count = 7000, .padded_count = 7000, .shard_elements = 3500, .low_layer = 0, .high_layer = 2, .tied = true},
    {.count = 60, .padded_count = 60, .shard_elements = 30, .low_layer = 1, .high_layer = 1, .frozen = true},
};
static const struct layout layout = {.shards = 2, .bucket_count = 6, .trainable_count = 5, .buckets = buckets};

static struct ledger ledger;
static struct tier *tier;
static struct buffer_cache cache;

static void open_tier(void)
{
    cr_assert_eq(tier_open(&ledger, &(struct tier_setting){0}, &tier), ERR_NONE);
}

static void close_tier(void)
{
    buffer_cache_close(&cache);
    tier_close(tier);
}

static const struct buffer_cache_rule FULL = {
    .bucket_count = 6, .skip_persistent = true, .element_bytes = 2, .where = TIER_DEVICE, .name = "full"};
static const struct buffer_cache_rule SHARDS = {
    .bucket_count = 6, .shards = true, .element_bytes = 2, .where = TIER_HOST, .name = "shards"};
static const struct buffer_cache_rule TRAINABLE = {
    .bucket_count = 5, .element_bytes = 4, .where = TIER_DEVICE, .name = "trainable"};

Test(buffer_cache, sizes_and_counts_cover_the_buckets_that_take_turns)
{
    cr_expect_eq(buffer_cache_bucket_count(&layout, &FULL), 4);
    cr_expect_eq(buffer_cache_bucket_count(&layout, &SHARDS), 5);
    cr_expect_eq(buffer_cache_bucket_count(&layout, &TRAINABLE), 4);
    cr_expect_eq(buffer_cache_largest_bytes(&layout, &FULL), 6000);
    cr_expect_eq(buffer_cache_largest_bytes(&layout, &SHARDS), 12288);
    cr_expect_eq(buffer_cache_largest_bytes(&layout, &TRAINABLE), 36000);
    // Shards fill whole blocks of NVMe.
    cr_expect_eq(buffer_cache_bucket_bytes(&layout, &SHARDS, 0), 4096);
    cr_expect_eq(buffer_cache_bucket_bytes(&layout, &SHARDS, 4), 8192);
    struct bucket block = {.count = 4096, .padded_count = 4096, .shard_elements = 2048};
    cr_expect_eq(
        buffer_cache_bucket_bytes(&(struct layout){.shards = 2, .bucket_count = 1, .buckets = &block}, &SHARDS, 0),
        4096);
    cr_expect_eq(buffer_cache_bucket_bytes(&layout, &FULL, 1), 6000);
    // Layer 1 uses three together, layer 0 none but the persistent one; the tied one is not counted.
    cr_expect_eq(buffer_cache_least(&layout, &FULL, 3), 3);
    cr_expect_eq(buffer_cache_least(&layout, &FULL, 1), 0);
    cr_expect_eq(buffer_cache_least(&layout, &SHARDS, 1), 1);
    cr_expect_eq(buffer_cache_least(&layout, &TRAINABLE, 3), 2);
    cr_expect_eq(buffer_cache_least(&layout, &TRAINABLE, 0), 0);
}

Test(buffer_cache, memory_is_the_buffers_and_one_more_per_tied_bucket, .init = open_tier, .fini = close_tier)
{
    cr_assert_eq(buffer_cache_open(&layout, &FULL, 3, tier, &cache), ERR_NONE);
    cr_expect_eq(ledger.held_bytes[TIER_DEVICE][KIND_STAGING], 3 * 6000 + 14000);
    cr_expect_eq(ledger.tier_bytes[TIER_HOST], 0);
    buffer_cache_close(&cache);
    cr_assert_eq(buffer_cache_open(&layout, &SHARDS, 2, tier, &cache), ERR_NONE);
    cr_expect_eq(ledger.held_bytes[TIER_HOST][KIND_STAGING], 2 * 12288 + 8192);
}

Test(buffer_cache, acquires_empty_buffers_first_then_the_least_recently_used, .init = open_tier, .fini = close_tier)
{
    cr_assert_eq(buffer_cache_open(&layout, &FULL, 2, tier, &cache), ERR_NONE);
    cr_expect_eq(buffer_cache_lru(&cache), -1);
    char *zero = buffer_cache_acquire(&cache, 0), *one = buffer_cache_acquire(&cache, 1);
    cr_assert(zero != one);
    cr_expect_geq(one > zero ? one - zero : zero - one, 6000);
    cr_expect_eq(buffer_cache_use(&cache, 0), zero);
    cr_expect_eq(buffer_cache_use(&cache, 2), NULL);
    // A peek is no use: bucket 1 remains the least recently used.
    cr_expect_eq(buffer_cache_peek(&cache, 1), one);
    cr_expect_eq(buffer_cache_lru(&cache), 1);
    cr_expect_eq(buffer_cache_acquire(&cache, 2), one);
    cr_expect_eq(buffer_cache_use(&cache, 1), NULL);
    cr_expect_eq(buffer_cache_peek(&cache, 0), zero);
    cr_expect_eq(buffer_cache_lru(&cache), 0);
    // A released buffer is empty, and is acquired before all others.
    buffer_cache_use(&cache, 0);
    buffer_cache_release(&cache, 0);
    cr_expect_eq(buffer_cache_peek(&cache, 0), NULL);
    cr_expect_eq(buffer_cache_lru(&cache), -1);
    cr_expect_eq(buffer_cache_acquire(&cache, 1), zero);
    // A bucket that acquires again leaves its old buffer.
    cr_expect_eq(buffer_cache_acquire(&cache, 2), one);
    cr_expect_eq(buffer_cache_peek(&cache, 1), zero);
}

// The executor waits for a buffer's last use, so an earlier last use is better.
Test(buffer_cache, acquires_the_least_recently_used_of_empty_buffers, .init = open_tier, .fini = close_tier)
{
    cr_assert_eq(buffer_cache_open(&layout, &FULL, 3, tier, &cache), ERR_NONE);
    void *zero = buffer_cache_acquire(&cache, 0), *one = buffer_cache_acquire(&cache, 1),
         *two = buffer_cache_acquire(&cache, 2);
    buffer_cache_use(&cache, 0);
    buffer_cache_clear(&cache);
    cr_expect_eq(buffer_cache_acquire(&cache, 5), one);
    cr_expect_eq(buffer_cache_acquire(&cache, 0), two);
    cr_expect_eq(buffer_cache_acquire(&cache, 1), zero);
}

Test(buffer_cache, a_tied_bucket_has_a_buffer_of_its_own, .init = open_tier, .fini = close_tier)
{
    cr_assert_eq(buffer_cache_open(&layout, &FULL, 1, tier, &cache), ERR_NONE);
    cr_expect_eq(buffer_cache_use(&cache, 4), NULL);
    void *tied = buffer_cache_acquire(&cache, 4);
    for (int bucket = 0; bucket < 3; bucket++) {
        cr_expect_neq(buffer_cache_acquire(&cache, bucket), tied);
        cr_expect_eq(buffer_cache_use(&cache, 4), tied);
        cr_expect_eq(buffer_cache_lru(&cache), bucket);
    }
    buffer_cache_release(&cache, 4);
    cr_expect_eq(buffer_cache_peek(&cache, 4), NULL);
    cr_expect_eq(buffer_cache_acquire(&cache, 4), tied);
    buffer_cache_clear(&cache);
    cr_expect_eq(buffer_cache_peek(&cache, 4), NULL);
    cr_expect_eq(buffer_cache_peek(&cache, 2), NULL);
}

// Sub-groups begin on blocks of NVMe in 16 bits and in 32: 2048 elements. A shard of 3500, 4500, ... elements.
Test(buffer_cache, sub_groups_are_whole_granules_or_the_whole_shard)
{
    static const size_t sizes[][3] = {// wanted, of a shard of 3500, of a shard of 4500
                                      {0, 3500, 4500},    {1, 2048, 2048},    {2047, 2048, 2048},   {2048, 2048, 2048},
                                      {2049, 4096, 4096}, {3499, 4096, 4096}, {3500, 3500, 4096},   {3501, 3500, 4096},
                                      {4096, 3500, 4096}, {4500, 3500, 4500}, {1000000, 3500, 4500}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct config config = {.sub_group_size = sizes[i][0]};
        const struct optimizer optimizer = {.config = &config, .layout = &layout};
        cr_expect_eq(optimizer_sub_group_count(&optimizer, 4), sizes[i][1], "%zu", sizes[i][0]);
        cr_expect_eq(optimizer_sub_group_count(&optimizer, 3), sizes[i][2], "%zu", sizes[i][0]);
        size_t largest = sizes[i][1] > sizes[i][2] ? sizes[i][1] : sizes[i][2];
        cr_expect_eq(optimizer_buffer_bytes(&optimizer), 4 * largest, "%zu", sizes[i][0]);
    }
}
