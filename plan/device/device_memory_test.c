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

static struct plan plan_of(const char *model, int world, double checkpointed, const char *const set[], size_t set_count)
{
    const struct config_options options = {.world = world,
                                           .set = set,
                                           .set_count = set_count,
                                           .nvme_paths = (const char *const[]){"."},
                                           .nvme_path_count = 1};
    struct plan plan;
    struct plan_setting setting = {
        .config = &config, .machine = &machine, .world = world, .checkpointed_share = checkpointed};
    cr_assert_eq(config_load_preset("zero3", &options, &config, NULL), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_machine_find("grand-teton-h100", &machine), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_model_find(model, 1, &setting.model), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_run(&setting, &plan), ERR_NONE, "%s", err_message());
    return plan;
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

Test(device_memory, is_within_a_twentieth_of_what_torchtitan_reports_compiled)
{
    static const struct {
        int world;
        double reported_gib;
    } runs[] = {{8, 77.0}, {128, 62.0}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct plan plan = plan_of("llama-8b", runs[i].world, 0.5, titan, sizeof titan / sizeof titan[0]);
        double gib = (double)plan.needed_bytes[TIER_DEVICE] / (1 << 30);
        cr_expect_lt(fabs(gib / runs[i].reported_gib - 1), 0.05, "%d: %g", runs[i].world, gib);
        cr_expect(plan.fits_all);
    }
}

Test(device_memory, lines_follow_their_formulas)
{
    struct plan plan = plan_of("llama-8b", 8, 0, titan, 3);
    const uint64_t tokens = 2 * 8192, kept = 4 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14336;
    cr_expect_eq(line(&plan, "activations"), 32 * tokens * kept * 2);
    cr_expect_eq(line(&plan, "checkpoints"), 0);
    cr_expect_eq(line(&plan, "logits"), 8 * tokens * 128256);
    cr_expect_eq(line(&plan, "parameters"), plan.held_bytes[TIER_DEVICE][KIND_PARAMETER]);
    cr_expect_eq(line(&plan, "staging"), (128256 * 4096 + 4096) * UINT64_C(10));
    plan = plan_of("llama-8b", 8, 1, titan, 4);
    cr_expect_eq(line(&plan, "activations"), tokens * kept * 2);
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

Test(device_memory, total_is_the_sum_of_the_lines)
{
    struct plan plan = plan_of("mixtral-8x7b", 16, 0, titan, 4);
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        uint64_t sum = 0;
        for (int i = 0; i < plan.device.line_count; i++)
            sum += plan.device.lines[i].bytes[tier];
        cr_expect_eq(sum, plan.device.total_bytes[tier]);
    }
}
