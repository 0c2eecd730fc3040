// SPDX-License-Identifier: Apache-2.0
// Copies between tiers and conversions within a tier: bits, lanes and counted bytes.
#include "ref/executor/move.h"

#include "base/err.h"
#include "ref/tier/storage_test.h"
#include "ref/tier/tier.h"

#include <criterion/criterion.h>

enum { ROOM_BYTES = 3 * TIER_NVME_ALIGNMENT };

static struct ledger ledger;
static struct tier *tier;
static struct tier_nvme *nvme;
static struct executor *executor;
static struct move move;
static unsigned char *memory[TIER_COUNT][2];  // two places a tier; on NVMe, only their names

static void open_in(struct executor_schedule schedule)
{
    static const char *const folder[] = {storage_folder};
    const struct tier_nvme_setting setting = {
        .paths = folder,
        .path_count = 1,
        .checksum = true,
        .aio = {.block_bytes = 8192, .queue_depth = 2, .overlap_events = true, .intra_op_parallelism = 1}};
    ledger = (struct ledger){0};
    cr_assert_eq(tier_open(&ledger, &(struct tier_setting){0}, &tier), ERR_NONE);
    cr_assert_eq(tier_nvme_open(&setting, &ledger, &nvme), ERR_NONE, "%s", err_message());
    cr_assert_eq(executor_open(schedule, 0, tier, NULL, NULL, &executor), ERR_NONE);
    move = (struct move){executor, &ledger, nvme};
    for (int i = 0; i < 2; i++) {
        for (enum ledger_tier where = TIER_DEVICE; where <= TIER_HOST; where++)
            cr_assert_eq(tier_allocate(tier, where, KIND_STAGING, "room", ROOM_BYTES, 0, (void **)&memory[where][i]),
                         ERR_NONE);
        cr_assert_eq(tier_nvme_allocate(nvme, KIND_STAGING, "room", ROOM_BYTES, 0, (void **)&memory[TIER_NVME][i]),
                     ERR_NONE, "%s", err_message());
    }
}

static void close_all(void)
{
    executor_close(executor);
    tier_nvme_close(nvme);
    tier_close(tier);
}

static const struct executor_schedule SCHEDULES[] = {{EXECUTOR_SERIAL, 0}, {EXECUTOR_OVERLAP, 0}, {EXECUTOR_CHAOS, 4}};
static const size_t SIZES[] = {1, 4095, 4096, 4097, ROOM_BYTES};

static struct location location(enum ledger_tier where, int which)
{
    return (struct location){where, memory[where][which]};
}

static void copy(struct location to, struct location from, size_t bytes)
{
    cr_assert_eq(move_copy(&move, "copy", to, from, bytes, NULL), ERR_NONE, "%s", err_message());
}

// A chain without a wait: device, host, NVMe, and back to other addresses.
Test(move, concurrent_a_round_trip_over_all_tiers_keeps_the_bytes)
{
    for (size_t s = 0; s < sizeof SCHEDULES / sizeof *SCHEDULES; s++)
        for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
            size_t bytes = SIZES[i], blocks = (bytes + 4095) / 4096 * 4096;
            open_in(SCHEDULES[s]);
            storage_fill(memory[TIER_DEVICE][0], ROOM_BYTES, bytes);
            unsigned char before = memory[TIER_DEVICE][1][ROOM_BYTES - 1];
            copy(location(TIER_HOST, 0), location(TIER_DEVICE, 0), bytes);
            copy(location(TIER_NVME, 0), location(TIER_HOST, 0), bytes);
            copy(location(TIER_HOST, 1), location(TIER_NVME, 0), bytes);
            copy(location(TIER_DEVICE, 1), location(TIER_HOST, 1), bytes);
            cr_assert_eq(executor_wait(executor), ERR_NONE, "%s", err_message());
            cr_expect_arr_eq(memory[TIER_DEVICE][1], memory[TIER_DEVICE][0], bytes);
            if (bytes < ROOM_BYTES)
                cr_expect_eq(memory[TIER_DEVICE][1][ROOM_BYTES - 1], before);
            const struct {
                enum lane lane;
                uint64_t bytes;
            } lanes[] = {{LANE_D2H, bytes}, {LANE_NVME_WRITE, blocks}, {LANE_NVME_READ, blocks}, {LANE_H2D, bytes},
                         {LANE_CPU, 0},     {LANE_COMPUTE, 0}};
            for (size_t l = 0; l < sizeof lanes / sizeof *lanes; l++)
                cr_expect_eq(ledger.moved_bytes[lanes[l].lane][OPERATION_COPY], lanes[l].bytes, "%s, %zu bytes",
                             ledger_lane_name(lanes[l].lane), bytes);
            close_all();
        }
}

Test(move, a_copy_within_a_tier_runs_on_its_lane)
{
    open_in(SCHEDULES[1]);
    storage_fill(memory[TIER_DEVICE][0], ROOM_BYTES, 5);
    storage_fill(memory[TIER_HOST][0], ROOM_BYTES, 6);
    copy(location(TIER_DEVICE, 1), location(TIER_DEVICE, 0), 5000);
    copy(location(TIER_HOST, 1), location(TIER_HOST, 0), 3);
    copy(location(TIER_HOST, 1), location(TIER_HOST, 0), 0);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    cr_expect_arr_eq(memory[TIER_DEVICE][1], memory[TIER_DEVICE][0], 5000);
    cr_expect_arr_eq(memory[TIER_HOST][1], memory[TIER_HOST][0], 3);
    cr_expect_eq(ledger.moved_bytes[LANE_COMPUTE][OPERATION_COPY], 5000);
    cr_expect_eq(ledger.moved_bytes[LANE_CPU][OPERATION_COPY], 3);
    cr_expect_eq(ledger.moved_count[LANE_CPU][OPERATION_COPY], 1);
    close_all();
}

Test(move, device_and_nvme_have_no_direct_copy)
{
    open_in(SCHEDULES[0]);
    static const enum ledger_tier pairs[][2] = {
        {TIER_DEVICE, TIER_NVME}, {TIER_NVME, TIER_DEVICE}, {TIER_NVME, TIER_NVME}};
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(move_copy(&move, "leap", location(pairs[i][0], 0), location(pairs[i][1], 1), 4096, NULL),
                     ERR_INTERNAL);
        cr_expect(strstr(err_message(), "leap"), "%s", err_message());
    }
    close_all();
}

Test(move, bytes_to_and_from_nvme_are_whole_blocks)
{
    cr_expect_eq(move_bytes(TIER_HOST, TIER_DEVICE, 4097), 4097);
    cr_expect_eq(move_bytes(TIER_DEVICE, TIER_HOST, 1), 1);
    cr_expect_eq(move_bytes(TIER_NVME, TIER_HOST, 4097), 8192);
    cr_expect_eq(move_bytes(TIER_HOST, TIER_NVME, 4096), 4096);
    cr_expect_eq(move_bytes(TIER_HOST, TIER_NVME, 0), 0);
}

// The additional span of a copy orders it: the second copy may not begin before the first has ended, although they
// share no byte and run on different lanes.
static int late(void *argument)
{
    usleep(20000);
    **(unsigned char **)argument = 7;
    return ERR_NONE;
}

Test(move, concurrent_an_additional_span_orders_a_copy)
{
    static char order;
    open_in(SCHEDULES[1]);
    unsigned char *value = memory[TIER_HOST][0];
    const struct executor_span held = {&order, 1, EXECUTOR_WRITE};
    *value = 1;
    cr_assert_eq(executor_issue(executor, &(struct executor_operation){.name = "late",
                                                                       .lane = LANE_CPU,
                                                                       .run = late,
                                                                       .arguments = &value,
                                                                       .arguments_bytes = sizeof value,
                                                                       .spans = &held,
                                                                       .span_count = 1}),
                 ERR_NONE);
    cr_assert_eq(move_copy(&move, "after", location(TIER_DEVICE, 0), location(TIER_HOST, 0), 1, &held), ERR_NONE);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    cr_expect_eq(memory[TIER_DEVICE][0][0], 7);
    close_all();
}

// Rounding to nearest, ties to even; a sum in 16 bits is rounded once.
Test(move, concurrent_conversions_round_once_on_the_lane_of_their_tier)
{
    const float given[] = {1.0f, 1.00390625f, 1.01171875f, -3.1415927f, 65504.0f};
    enum { COUNT = sizeof given / sizeof *given };
    for (size_t s = 0; s < sizeof SCHEDULES / sizeof *SCHEDULES; s++)
        for (enum ledger_tier where = TIER_DEVICE; where <= TIER_HOST; where++) {
            open_in(SCHEDULES[s]);
            float *wide = (float *)memory[where][0];
            struct bf16 *narrow = (struct bf16 *)memory[where][1], *sum = narrow + 64;
            float *back = (float *)(memory[where][1] + 1024), *wide_sum = back + 64;
            memcpy(wide, given, sizeof given);
            memcpy(wide_sum, given, sizeof given);
            for (int i = 0; i < COUNT; i++)
                sum[i] = f32_to_bf16(0.25f);
            executor_record(executor, true);
            cr_assert_eq(move_cast(&move, where, wide, DTYPE_FP32, narrow, DTYPE_BF16, COUNT, false), ERR_NONE);
            cr_assert_eq(move_cast(&move, where, narrow, DTYPE_BF16, back, DTYPE_FP32, COUNT, false), ERR_NONE);
            cr_assert_eq(move_cast(&move, where, narrow, DTYPE_BF16, sum, DTYPE_BF16, COUNT, true), ERR_NONE);
            cr_assert_eq(move_cast(&move, where, narrow, DTYPE_BF16, wide_sum, DTYPE_FP32, COUNT, true), ERR_NONE);
            cr_assert_eq(move_cast(&move, where, narrow, DTYPE_BF16, narrow + 128, DTYPE_BF16, COUNT, false), ERR_NONE);
            cr_assert_eq(move_cast(&move, where, narrow, DTYPE_BF16, narrow, DTYPE_BF16, 0, true), ERR_NONE);
            cr_assert_eq(executor_wait(executor), ERR_NONE);
            for (int i = 0; i < COUNT; i++) {
                struct bf16 rounded = f32_to_bf16(given[i]);
                cr_expect_eq(narrow[i].bits, rounded.bits);
                cr_expect_eq(narrow[128 + i].bits, rounded.bits);
                cr_expect_eq(back[i], bf16_to_f32(rounded));
                cr_expect_eq(sum[i].bits, f32_to_bf16(0.25f + bf16_to_f32(rounded)).bits);
                cr_expect_eq(wide_sum[i], given[i] + bf16_to_f32(rounded));
            }
            size_t of_device, of_host;
            executor_intervals(executor, LANE_COMPUTE, &of_device);
            executor_intervals(executor, LANE_CPU, &of_host);
            cr_expect_eq(where == TIER_DEVICE ? of_device : of_host, 5);
            cr_expect_eq(where == TIER_DEVICE ? of_host : of_device, 0);
            close_all();
        }
}

Test(move, two_different_16_bit_formats_are_refused)
{
    open_in(SCHEDULES[0]);
    cr_expect_eq(
        move_cast(&move, TIER_HOST, memory[TIER_HOST][0], DTYPE_BF16, memory[TIER_HOST][1], DTYPE_FP16, 1, false),
        ERR_INTERNAL);
    cr_expect(strstr(err_message(), "bf16") && strstr(err_message(), "fp16"), "%s", err_message());
    close_all();
}
