// SPDX-License-Identifier: Apache-2.0
// Training on GPUs. Linear models have the bits of the same run on the host, for every stage, world, format and
// schedule. A GPT uses cuBLAS, so its run must equal unsharded Adam with the model on the GPU, and must be equal in all
// worlds.
#include "ref/train/device.h"
#include "ref/train/offload_test.h"

#include "ref/cuda/cuda_lane.h"

#include <stdio.h>

static bool open_device(int world, struct train_setting *setting)
{
    const char *absent = cuda_lane_absent();
    if (absent) {
        printf("TEST SKIPPED: %s\n", absent);
        return false;
    }
    *setting = (struct train_setting){.world = world, .verify = true, .swap_checksum = true};
    cr_assert_eq(device_find("cuda", false, setting), ERR_NONE, "%s", err_message());
    return true;
}

static struct train_result run(struct offload_trial t, struct train_setting setting)
{
    struct train_result result = offload_succeed(&t, setting);
    cr_assert_not(result.difference.found, "%s of %s, element %d\n%s", result.difference.state,
                  result.difference.tensor, (int)result.difference.element, offload_name(&t));
    cr_assert_eq(result.verified_steps, t.steps, "%s", offload_name(&t));
    cr_assert(result.accounting_equal, "%s", offload_name(&t));
    return result;
}

static void demand_equal(struct offload_trial t)
{
    struct train_setting setting;
    if (!open_device(t.world, &setting))
        return;
    struct train_result on_gpu = run(t, setting);
    setting.accelerator = NULL;
    struct train_result on_host = run(t, setting);
    cr_expect_str_eq(on_gpu.digest, on_host.digest, "%s", offload_name(&t));
    cr_expect_eq(on_gpu.loss, on_host.loss, "%s", offload_name(&t));
}

Test(train_cuda, each_stage_and_world_has_the_processors_bits_gpu)
{
    for (int world = 1; world <= 8; world++)
        demand_equal(OFFLOAD_TRIAL(.world = world, .stage = world % 4));
}

Test(train_cuda, each_format_has_the_processors_bits_gpu)
{
    demand_equal(OFFLOAD_TRIAL(OFFLOAD_IN(DTYPE_FP32)));
    demand_equal(OFFLOAD_TRIAL(.stage = 2, OFFLOAD_IN(DTYPE_FP16)));
    demand_equal(OFFLOAD_TRIAL(.stage = 1, .sum = DTYPE_FP32, .communication = DTYPE_FP32, .accumulation = 2));
    demand_equal(OFFLOAD_TRIAL(.model = "linear-overflow", OFFLOAD_IN(DTYPE_FP16)));
}

Test(train_cuda, offloaded_states_have_the_processors_bits_gpu)
{
    demand_equal(OFFLOAD_TRIAL(OFFLOAD_ON_HOST, .parameter = TIER_HOST));
    demand_equal(OFFLOAD_TRIAL(OFFLOAD_ON_NVME));
    demand_equal(OFFLOAD_TRIAL(.stage = 2, OFFLOAD_ON_HOST, .delay = 2));
}

Test(train_cuda, each_schedule_has_the_processors_bits_gpu)
{
    demand_equal(OFFLOAD_TRIAL(.schedule = {EXECUTOR_SERIAL, 0}));
    demand_equal(OFFLOAD_TRIAL(.schedule = {EXECUTOR_CHAOS, 5}, OFFLOAD_ON_HOST));
}

Test(train_cuda, a_gpt_equals_unsharded_adam_in_every_stage_and_world_gpu)
{
    struct train_setting setting;
    for (int stage = 1; stage <= 3; stage++)
        for (int world = 1; world <= 4; world += 3) {
            struct offload_trial t = OFFLOAD_TRIAL(.model = "gpt-nano", .stage = stage, .world = world);
            if (!open_device(world, &setting))
                return;
            struct train_result first = run(t, setting), other = run(t, setting);
            cr_expect_str_eq(other.digest, first.digest, "%s", offload_name(&t));
        }
}

Test(train_cuda, a_gpt_in_fp32_with_checkpoints_equals_unsharded_adam_gpu)
{
    struct train_setting setting;
    if (!open_device(2, &setting))
        return;
    run(OFFLOAD_TRIAL(.model = "gpt-nano", OFFLOAD_IN(DTYPE_FP32)), setting);
    run(OFFLOAD_TRIAL(.model = "gpt-nano", .checkpointing = true, .activation = TIER_HOST, .tiles = 2), setting);
}
