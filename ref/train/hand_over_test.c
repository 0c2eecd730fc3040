// SPDX-License-Identifier: Apache-2.0
// Updated parameters that the next forward finds on the host, on their way to NVMe. A run with verification waits for
// each update before the next step, so that nothing is handed over; without it the bits must be the same.
#include "ref/train/offload_random_test.h"

// The difference of a run that waits after each step and one that does not. A verified run does not, either.
static uint64_t demand_both(const struct offload_trial *t)
{
    const struct train_setting each = {.verify = TRAIN_VERIFY_EACH, .swap_checksum = true};
    struct train_result waiting = offload_succeed(t, each);
    cr_assert_not(waiting.difference.found, "%s", offload_name(t));
    struct train_result verified = offload_demand(t);
    struct train_result result = offload_succeed(t, (struct train_setting){.swap_checksum = true});
    cr_assert_str_eq(result.digest, verified.digest, "%s", offload_name(t));
    cr_assert_eq(result.host_hits, verified.host_hits, "%s", offload_name(t));
    cr_assert_str_eq(result.digest, waiting.digest, "%s", offload_name(t));
    cr_assert(result.accounting_equal, "%s", offload_name(t));
    cr_assert_eq(result.host_hits + result.host_misses, waiting.host_hits + waiting.host_misses, "%s", offload_name(t));
    uint64_t found = waiting.host_misses - result.host_misses;
    uint64_t read =
        waiting.moved_bytes[LANE_NVME_READ][OPERATION_COPY] - result.moved_bytes[LANE_NVME_READ][OPERATION_COPY];
    // A rank with an empty shard reads nothing.
    cr_assert(read == 0 || found > 0, "%s", offload_name(t));
    return found;
}

// Each step but the first finds all of the model: positions, the embedding, six blocks and the last norm.
Test(hand_over, each_step_finds_the_updated_parameters_of_every_layer_on_the_host)
{
    enum { BUCKETS = 9 };
    struct offload_trial t = OFFLOAD_TRIAL(.model = "gpt:layers=6,width=32,heads=2,length=32", .world = 2, .steps = 4,
                                           OFFLOAD_ON_NVME, .sub_group = 2048);
    for (t.param_buffers = 1; t.param_buffers <= 4; t.param_buffers++)
        for (t.accumulation = 1; t.accumulation <= 2; t.accumulation++) {
            t.sum = t.accumulation > 1 ? DTYPE_FP32 : DTYPE_BF16;
            t.prefetch = t.param_buffers == 2 ? 0 : 100000;
            uint64_t expected = t.param_buffers == 1 ? 0 : (t.steps - 1) * (uint64_t)t.world * BUCKETS;
            cr_expect_eq(demand_both(&t), expected, "%s", offload_name(&t));
        }
}

// Nobody finds what a skipped step has not updated, what waits for its turn, or what fp32 parameters share.
Test(hand_over, only_updates_that_the_next_forward_issues_are_found)
{
    const struct offload_trial trials[] = {
        OFFLOAD_TRIAL(OFFLOAD_ON_NVME, .delay = 1),
        OFFLOAD_TRIAL(OFFLOAD_ON_NVME, .speculative = true),
        OFFLOAD_TRIAL(OFFLOAD_ON_NVME, .unchecked = true, .clip = 0),
        OFFLOAD_TRIAL(OFFLOAD_ON_NVME, OFFLOAD_IN(DTYPE_FP32)),
        OFFLOAD_TRIAL(.optimizer = TIER_DEVICE, .parameter = TIER_NVME),
        OFFLOAD_TRIAL(.optimizer = TIER_NVME, .gradient = TIER_NVME, .parameter = TIER_HOST),
    };
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        cr_expect_eq(demand_both(&trials[i]), 0, "%s", offload_name(&trials[i]));
}

Test(hand_over, in_random_configurations_no_bit_and_no_byte_differs)
{
    enum { TRIALS = 40 };
    uint64_t with_finds = 0;
    for (uint64_t drawn = 0, tried = 0; tried < TRIALS; drawn++) {
        struct draw d = {random_key(20, drawn), 0};
        struct offload_trial t = draw_trial(&d);
        if (t.stage != 3 || t.parameter != TIER_NVME || t.optimizer == TIER_DEVICE)
            continue;
        tried++;
        with_finds += demand_both(&t) > 0;
    }
    cr_expect_geq(with_finds, TRIALS / 8);
}
