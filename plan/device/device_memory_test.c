// SPDX-License-Identifier: Apache-2.0
// A GPU implementation's memory, against what torchtitan reports (benchmarks/llama3_h100_202412_torchtitan.md).
#include "plan/device/device_memory.h"

#include "base/err.h"
#include "plan/planner/plan.h"
#include "plan/planner/plan_model.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

static struct config config;
static struct plan_machine machine;

static struct plan plan_with(const char *model, int world, struct framework_choice choice, const char *const set[],
                             size_t set_count)
{
    const struct config_options options = {.world = world,
                                           .set = set,
                                           .set_count = set_count,
                                           .nvme_paths = (const char *const[]){"."},
                                           .nvme_path_count = 1};
    struct plan plan;
    struct plan_setting setting = {.config = &config, .machine = &machine, .world = world, .choice = choice};
    cr_assert_eq(config_load_preset("zero3", &options, &config, NULL), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_machine_find("grand-teton-h100", &machine), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_model_find(model, 1, &setting.model), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_run(&setting, &plan), ERR_NONE, "%s", err_message());
    return plan;
}

static struct plan plan_of(const char *model, int world, double checkpointed, const char *const set[], size_t set_count)
{
    return plan_with(model, world, (struct framework_choice){.checkpointed_share = checkpointed}, set, set_count);
}

static uint64_t line(const struct plan *plan, const char *name)
{
    for (int i = 0; i < plan->device.line_count; i++)
        if (strcmp(plan->device.lines[i].name, name) == 0)
            return plan->device.lines[i].bytes[TIER_DEVICE];
    cr_assert_fail("no line %s", name);
    return 0;
}

static const char *const titan[] = {"train_micro_batch_size_per_gpu=2", "gradient_accumulation_steps=1",
                                    "communication_data_type=fp32", "zerogauge.activation_checkpointing.enabled=true"};

Test(device_memory, is_near_what_torchtitan_reports_compiled)
{
    static const struct {
        int world;
        double reported_gib;
    } runs[] = {{8, 77.0}, {128, 62.0}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct plan plan = plan_of("llama-8b", runs[i].world, 0.5, titan, sizeof titan / sizeof titan[0]);
        double gib = (double)plan.device.reserved_bytes / (1 << 30);
        cr_expect_lt(fabs(gib / runs[i].reported_gib - 1), 0.08, "%d: %g", runs[i].world, gib);
        cr_expect_eq(plan.verdict, PLAN_FITS);
    }
}

Test(device_memory, lines_follow_their_formulas)
{
    struct plan plan = plan_of("llama-8b", 8, 0, titan, 3);
    const uint64_t tokens = 2 * 8192, kept = 4 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14336;
    cr_expect_eq(line(&plan, "activations"), 32 * tokens * kept * 2);
    cr_expect_eq(line(&plan, "checkpoints"), 0);
    const uint64_t head = 128256 * 4096 + 4096, block = 218112000, bf16 = 2, fp32 = 4;
    cr_expect_eq(line(&plan, "logits"), (2 + 4 + 4) * tokens * 128256);
    cr_expect_eq(line(&plan, "parameters"), 0, "the masters are the parameters");
    cr_expect_eq(line(&plan, "master"), plan.held_bytes[TIER_DEVICE][KIND_MASTER]);
    cr_expect_eq(line(&plan, "gathered"), fmax(2 * head, 2 * (head - 4096) + block) * bf16);
    cr_expect_eq(line(&plan, "reduced"), head * (bf16 + fp32));
    cr_expect_eq(line(&plan, "block"), tokens * 14336 * bf16);
    plan = plan_of("llama-8b", 8, 1, titan, 4);
    cr_expect_eq(line(&plan, "activations"), 0);
    cr_expect_eq(line(&plan, "block"), tokens * (kept + 14336) * 2);
    cr_expect_eq(line(&plan, "checkpoints"), 32 * tokens * 4096 * 2);
}

Test(device_memory, checkpoints_go_where_the_configuration_says)
{
    static const char *const set[] = {"zerogauge.activation_checkpointing.enabled=true",
                                      "zerogauge.activation_checkpointing.device=cpu"};
    struct plan plan = plan_of("llama-8b", 8, 0, set, 2);
    cr_expect_eq(line(&plan, "checkpoints"), 0);
    cr_expect_geq(plan.device.total_bytes[TIER_HOST], UINT64_C(32) * 8192 * 4096 * 2);
}

// A device holds what its fullest moment does, and the other tiers everything.
Test(device_memory, total_is_that_of_the_fullest_moment)
{
    struct plan plan = plan_of("mixtral-8x7b", 16, 0, titan, 4);
    uint64_t fullest = 0;
    for (int moment = 0; moment < MOMENT_COUNT; moment++) {
        uint64_t sum = 0;
        for (int i = 0; i < plan.device.line_count; i++)
            sum += plan.device.lines[i].moments >> moment & 1 ? plan.device.lines[i].bytes[TIER_DEVICE] : 0;
        cr_expect_leq(sum, plan.device.tensor_bytes);
        fullest = sum > fullest ? sum : fullest;
    }
    cr_expect_eq(plan.device.tensor_bytes, fullest);
    cr_expect_eq(plan.device.total_bytes[TIER_DEVICE], fullest + (UINT64_C(1) << 30), "half for CUDA, half for NCCL");
    for (int tier = TIER_DEVICE + 1; tier < TIER_COUNT; tier++) {
        uint64_t sum = 0;
        for (int i = 0; i < plan.device.line_count; i++)
            sum += plan.device.lines[i].bytes[tier];
        cr_expect_eq(sum, plan.device.total_bytes[tier]);
    }
}

static const char *const zero2[] = {"zero_optimization.stage=2", "train_micro_batch_size_per_gpu=1",
                                    "zerogauge.activation_checkpointing.enabled=true"};

// LLaMA-Factory #1158: an allocation of 12.94 GiB, 4 Psi / N, fails in the update of a plan that fits before it.
Test(device_memory, the_update_of_zero2_copies_the_gradients_in_fp32)
{
    const uint64_t shard = 13896668160 / 4;
    struct plan plan = plan_of("baichuan2-13b", 4, 1, zero2, 3);
    cr_expect_eq(plan.device.fullest, MOMENT_UPDATE);
    cr_expect_eq(line(&plan, "gradient copies"), (2 + 4) * shard);
    cr_expect_eq(line(&plan, "optimizer"), 8 * shard);
    cr_expect_str_eq(plan.device.framework->name, "deepspeed");
}

Test(device_memory, frameworks_and_formats_change_the_lines_that_they_should)
{
    static const struct {
        struct framework_words words;
        const char *line;
        double bytes;  // for each of the 8,030,261,248 parameters
    } cases[] = {
        {{.framework = "hf"}, "master", 4},
        {{.framework = "hf"}, "temporaries", 4},
        {{.framework = "hf"}, "gradients", 4},
        {{.framework = "hf", .weights = "16bit"}, "master", 0},
        {{.framework = "hf", .weights = "16bit"}, "optimizer", 4},
        {{.framework = "hf", .weights = "16bit"}, "gradients", 2},
        {{.framework = "hf", .weights = "16bit"}, "temporaries", 2},
        {{.framework = "hf", .weights = "16bit", .moments = "8bit"}, "optimizer", 2 * (1 + 4 / 256.0)},
        {{.framework = "torchtune", .weights = "16bit"}, "parameters", 2},
        {{.framework = "megatron"}, "gradients", 2},
    };
    static const char *const set[] = {"zero_optimization.stage=0"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct framework_choice choice = {0};
        cr_assert_eq(framework_choose(&cases[i].words, &choice), ERR_NONE, "%s", err_message());
        struct plan plan = plan_with("llama-8b", 1, choice, set, 1);
        double expected = cases[i].bytes * 8030261248;
        cr_expect_float_eq((double)line(&plan, cases[i].line), expected, 1e-9 * expected + 1, "%zu: %s: %g", i,
                           cases[i].line, (double)line(&plan, cases[i].line));
    }
}

// Masters take the place of parameters only where both are: fp32 has none, they may be on the host, and ZeRO++ has
// secondary shards in 16 bits.
Test(device_memory, masters_take_the_place_of_parameters_on_their_own_tier_alone)
{
    static const struct {
        const char *framework, *set[3];
        double bytes;  // of the line of parameters, for each of the 8,030,261,248 parameters, on 16 ranks
        unsigned update;
    } cases[] = {
        {"fsdp2", {"zero_optimization.stage=3"}, 0, 1},
        {"fsdp2", {"zero_optimization.stage=3", "bf16.enabled=false", "bf16.check_grad_overflow=false"}, 4 / 16.0, 1},
        {"hf", {"zero_optimization.stage=3", "zero_optimization.offload_optimizer.device=cpu"}, 2 / 16.0, 1},
        {"fsdp2", {"zero_optimization.stage=3", "zero_optimization.zero_hpz_partition_size=8"}, 2 / 8.0, 1},
        {"hf", {"zero_optimization.stage=0"}, 2, 0},
        {"hf", {"zero_optimization.stage=0", "bf16.enabled=false", "bf16.check_grad_overflow=false"}, 4, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct framework_choice choice = {0};
        size_t count = 0;
        while (count < 3 && cases[i].set[count])
            count++;
        cr_assert_eq(framework_choose(&(struct framework_words){.framework = cases[i].framework}, &choice), ERR_NONE);
        struct plan plan = plan_with("llama-8b", 16, choice, cases[i].set, count);
        double expected = cases[i].bytes * 8030261248;
        cr_expect_float_eq((double)line(&plan, "parameters"), expected, 1e-3 * expected + 1, "%zu: %g", i,
                           (double)line(&plan, "parameters"));
        for (int k = 0; k < plan.device.line_count; k++)
            if (strcmp(plan.device.lines[k].name, "parameters") == 0)
                cr_expect_eq(plan.device.lines[k].moments >> MOMENT_UPDATE & 1, cases[i].update, "%zu", i);
    }
}
