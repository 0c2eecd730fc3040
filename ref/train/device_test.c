// SPDX-License-Identifier: Apache-2.0
// Training whose device is an accelerator, one that this processor plays: nothing of a stage, a collective, an
// optimizer or a model may touch its memory but through the accelerator's kernels and copies, and no bit may change.
#include "ref/train/device.h"
#include "ref/train/offload_test.h"
#include "ref/arithmetic/shadow_test.h"

static void demand(struct offload_trial t)
{
    const struct train_setting verified = {.verify = true, .swap_checksum = true};
    struct train_setting setting = verified;
    setting.accelerator = &shadow_accelerator;
    setting.device_count = 2;
    struct train_result here = offload_succeed(&t, verified), apart = offload_succeed(&t, setting);
    cr_expect_not(apart.difference.found, "%s of %s", apart.difference.state, apart.difference.tensor);
    cr_expect_str_eq(apart.digest, here.digest, "%s", offload_name(&t));
    cr_expect_eq(apart.loss, here.loss);
    cr_expect(apart.accounting_equal, "%s", offload_name(&t));
    cr_expect_arr_eq(apart.held_bytes, here.held_bytes, sizeof here.held_bytes);
    cr_expect_arr_eq(apart.moved_bytes, here.moved_bytes, sizeof here.moved_bytes);
    cr_expect_eq(shadow.block_count, 0, "%d allocations are left", shadow.block_count);
}

Test(device, each_stage_trains_on_an_accelerator_bit_for_bit)
{
    for (int stage = 0; stage <= 3; stage++)
        demand(OFFLOAD_TRIAL(.stage = stage, .world = 3));
}

Test(device, each_format_trains_on_an_accelerator_bit_for_bit)
{
    demand(OFFLOAD_TRIAL(.stage = 2, OFFLOAD_IN(DTYPE_FP32)));
    demand(OFFLOAD_TRIAL(.stage = 1, OFFLOAD_IN(DTYPE_FP16)));
    demand(OFFLOAD_TRIAL(.stage = 3, .sum = DTYPE_FP32, .communication = DTYPE_FP32, .accumulation = 2));
    demand(OFFLOAD_TRIAL(.stage = 3, .model = "linear-overflow", OFFLOAD_IN(DTYPE_FP16)));
}

Test(device, states_offloaded_from_an_accelerator_come_back_bit_for_bit)
{
    demand(OFFLOAD_TRIAL(OFFLOAD_ON_HOST));
    demand(OFFLOAD_TRIAL(OFFLOAD_ON_HOST, .parameter = TIER_HOST, .ratio = 0.5));
    demand(OFFLOAD_TRIAL(.stage = 2, OFFLOAD_ON_HOST, .delay = 2));
}

Test(device, states_on_nvme_pass_between_it_and_an_accelerator_bit_for_bit)
{
    demand(OFFLOAD_TRIAL(OFFLOAD_ON_NVME));
}

Test(device, each_schedule_trains_on_an_accelerator_bit_for_bit)
{
    demand(OFFLOAD_TRIAL(.schedule = {EXECUTOR_SERIAL, 0}, .world = 1));
    demand(OFFLOAD_TRIAL(.schedule = {EXECUTOR_CHAOS, 5}, OFFLOAD_ON_HOST));
    demand(OFFLOAD_TRIAL(.schedule = {EXECUTOR_CHAOS, 6}, .stage = 1, .world = 8));
}

Test(device, a_gpt_trains_on_an_accelerator_bit_for_bit)
{
    demand(OFFLOAD_TRIAL(.model = "gpt-nano", .stage = 3));
    demand(OFFLOAD_TRIAL(.model = "gpt:layers=1,width=16,heads=2,length=300", .stage = 1));  // two causal blocks
    demand(OFFLOAD_TRIAL(.model = "gpt-nano", .stage = 2, OFFLOAD_IN(DTYPE_FP16)));
    demand(OFFLOAD_TRIAL(.model = "gpt-nano", .stage = 1, OFFLOAD_IN(DTYPE_FP32)));
    demand(OFFLOAD_TRIAL(.model = "gpt-nano", .checkpointing = true, .activation = TIER_HOST, .tiles = 2));
}

Test(device, a_model_that_computes_in_host_memory_alone_is_refused)
{
    static const char *const models[] = {"gpt-nano:blocks=2", "gpt-nano:experts=4",
                                         "gpt-nano:blocks=2,sequence_parallel=1", "llama-tiny"};
    const struct train_setting setting = {.accelerator = &shadow_accelerator, .device_count = 1};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        offload_expect_refusal(&OFFLOAD_TRIAL(.model = models[i], .stage = 1), setting,
                               "blocks and experts run in host memory alone");
}

Test(device, a_device_is_found_by_name_or_the_refusal_says_what_there_is)
{
    struct train_setting setting = {.world = 3, .accelerator = &shadow_accelerator};
    cr_expect_eq(device_find(NULL, false, &setting), ERR_NONE);
    cr_expect_null(setting.accelerator);
    cr_expect_eq(device_find("cpu", true, &setting), ERR_NONE);
    cr_expect_null(setting.accelerator);
    cr_expect_eq(device_find("gpu", false, &setting), ERR_USAGE);
    cr_expect_str_eq(err_message(), "--device gpu: expected cpu or cuda");
    for (int launched = 0; launched < 2; launched++) {
        int rc = device_find("cuda", launched, &setting);
        if (rc == ERR_NONE) {
            cr_expect_str_eq(setting.accelerator->name, "cuda");
            cr_expect(setting.device_count >= 1 && setting.device_count <= 3, "%d devices", setting.device_count);
        } else {
            cr_expect_eq(rc, ERR_USAGE);
            cr_expect(strstr(err_message(), "--device cuda: "), "%s", err_message());
        }
    }
}
