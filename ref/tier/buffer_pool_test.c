// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/buffer_pool.h"

#include "base/err.h"
#include "ref/tier/tier_nvme.h"

#include <criterion/criterion.h>
#include <string.h>

static struct ledger ledger;
static struct tier *tier;

static void open_small_tier(void)
{
    cr_assert_eq(tier_open(&ledger, &(struct tier_setting){.host_bytes = 1 << 20}, &tier), ERR_NONE);
}

static void close_tier(void)
{
    tier_close(tier);
}

TestSuite(buffer_pool, .init = open_small_tier, .fini = close_tier);

Test(buffer_pool, buffers_take_turns_and_share_no_byte)
{
    for (int count = 1; count <= 5; count++) {
        struct buffer_pool pool;
        char *buffers[5];
        cr_assert_eq(buffer_pool_open(tier, TIER_HOST, "buffers", 5000, count, &pool), ERR_NONE);
        for (int i = 0; i < count; i++) {
            buffers[i] = buffer_pool_take(&pool);
            memset(buffers[i], i + 1, 5000);
        }
        for (int i = 0; i < count; i++) {
            cr_expect_eq(buffers[i][0], i + 1);
            cr_expect_eq(buffers[i][4999], i + 1);
        }
        for (int round = 0; round < 3; round++)
            for (int i = 0; i < count; i++)
                cr_expect_eq(buffer_pool_take(&pool), buffers[i]);
    }
}

Test(buffer_pool, every_buffer_is_whole_blocks_of_nvme_and_begins_on_one)
{
    static const size_t sizes[][2] = {{1, 4096}, {4095, 4096}, {4096, 4096}, {4097, 8192}, {12289, 16384}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct buffer_pool pool;
        uint64_t held = ledger.held_bytes[TIER_HOST][KIND_STAGING];
        cr_assert_eq(buffer_pool_open(tier, TIER_HOST, "buffers", sizes[i][0], 3, &pool), ERR_NONE);
        cr_expect_eq(pool.buffer_bytes, sizes[i][1]);
        cr_expect_eq(ledger.held_bytes[TIER_HOST][KIND_STAGING] - held, 3 * sizes[i][1]);
        for (int take = 0; take < 4; take++)
            cr_expect_eq((uintptr_t)buffer_pool_take(&pool) % TIER_NVME_ALIGNMENT, 0);
    }
}

Test(buffer_pool, none_are_none_and_too_many_are_refused)
{
    struct buffer_pool pool;
    cr_assert_eq(buffer_pool_open(tier, TIER_HOST, "no buffers", 5000, 0, &pool), ERR_NONE);
    cr_expect_eq(ledger.tier_bytes[TIER_HOST], 0);
    cr_assert_eq(buffer_pool_open(tier, TIER_HOST, "empty buffers", 0, 3, &pool), ERR_NONE);
    cr_expect_eq(ledger.tier_bytes[TIER_HOST], 0);
    cr_assert_eq(buffer_pool_open(tier, TIER_HOST, "large buffers", 4096, 257, &pool), ERR_BUDGET);
    cr_expect(strstr(err_message(), "large buffers"), "%s", err_message());
    cr_assert_eq(buffer_pool_open(tier, TIER_DEVICE, "on the device", 4096, 257, &pool), ERR_NONE);
    cr_expect_eq(ledger.tier_bytes[TIER_DEVICE], 257 * 4096);
}
