// SPDX-License-Identifier: Apache-2.0
// The ledger of a plan equals that of a real run, entry by entry for every rank, over stages, placements, formats and
// worlds, and over a sample in which all settings vary together.
#include "plan/planner/plan_trial.h"
#include "ref/train/offload_random_trial.h"

// Tiers that a stage permits for parameters, gradients and optimizer.
static const struct {
    int stage;
    enum ledger_tier parameter, gradient, optimizer;
} placements[] = {
    {0, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE}, {1, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
    {2, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE}, {3, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
    {1, TIER_DEVICE, TIER_HOST, TIER_HOST},     {2, TIER_DEVICE, TIER_HOST, TIER_HOST},
    {2, TIER_DEVICE, TIER_DEVICE, TIER_HOST},   {3, TIER_HOST, TIER_HOST, TIER_HOST},
    {3, TIER_DEVICE, TIER_NVME, TIER_NVME},     {3, TIER_NVME, TIER_DEVICE, TIER_DEVICE},
    {3, TIER_NVME, TIER_NVME, TIER_NVME},
};
enum { PLACEMENT_COUNT = sizeof placements / sizeof placements[0] };

static struct offload_trial trial_at(int placement)
{
    return OFFLOAD_TRIAL(.stage = placements[placement].stage, .parameter = placements[placement].parameter,
                         .gradient = placements[placement].gradient, .optimizer = placements[placement].optimizer);
}

Test(plan, every_place_in_worlds_of_one_to_eight_is_as_in_a_real_run)
{
    static const int worlds[] = {1, 2, 3, 4, 8};
    for (int placement = 0; placement < PLACEMENT_COUNT; placement++)
        for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
            struct offload_trial t = trial_at(placement);
            t.world = worlds[w];
            demand(&t);
        }
}

Test(plan, every_format_and_accumulation_is_as_in_a_real_run)
{
    static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    for (int placement = 0; placement < PLACEMENT_COUNT; placement++)
        for (int dtype = 0; dtype < 3; dtype++)
            for (size_t accumulation = 1; accumulation <= 3; accumulation += 2) {
                struct offload_trial t = trial_at(placement);
                t.precision = t.communication = dtypes[dtype];
                t.sum = DTYPE_FP32;
                t.accumulation = accumulation;
                t.world = 3;
                demand(&t);
            }
}

Test(plan, delayed_updates_buckets_and_owners_are_as_in_a_real_run)
{
    static const size_t buckets[] = {64, 998, 100000000};
    for (int placement = 0; placement < PLACEMENT_COUNT; placement++)
        for (size_t b = 0; b < 3; b++) {
            struct offload_trial t = trial_at(placement);
            t.bucket = buckets[b];
            t.delay = t.optimizer != TIER_DEVICE ? 2 : 0;
            t.owner_broadcast = t.stage == 3;
            t.contiguous = b != 1;
            t.reuse = b == 2 ? 1000000000 : 0;
            t.steps = 4;
            demand(&t);
        }
}

Test(plan, a_gpt_with_checkpoints_and_tiles_is_as_in_a_real_run)
{
    for (int placement = 0; placement < PLACEMENT_COUNT; placement++)
        for (enum ledger_tier kept = TIER_DEVICE; kept <= TIER_NVME; kept++) {
            struct offload_trial t = trial_at(placement);
            t.model = "gpt-nano";
            t.checkpointing = true;
            t.activation = kept;
            t.tiles = placement % 2 ? 4 : 1;
            t.steps = 2;
            demand(&t);
        }
}

static void sample(uint64_t from, uint64_t count)
{
    for (uint64_t number = from; number < from + count; number++) {
        struct draw d = {random_key(21, number), 0};
        struct offload_trial t = draw_trial(&d);
        // Skipped steps depend on values, which a plan does not have.
        if (strncmp(t.model, "linear-overflow", 15) == 0)
            t.model = "linear";
        // So do clipped ones, of which a speculative update is made again.
        if (t.speculative)
            t.clip = 1e6;
        demand(&t);
    }
}

Test(plan, a_sample_of_all_settings_is_as_in_a_real_run)
{
    sample(0, 60);
}
Test(plan, a_large_sample_of_all_settings_is_as_in_a_real_run_long, .timeout = 580)
{
    sample(1000, 3000);
}

// Of a mesh's two kinds of groups, both are in the timeline with their own links: replicas on different nodes exchange
// a shard's gradients over the network, which 8 groups share, and gathers stay within the node.
Test(plan, a_mesh_on_nodes_gathers_within_a_node)
{
    static const char *const meshes[] = {"", "zerogauge.mesh=replicate=8,shard=8"};
    struct plan_machine machine;
    double gather_s[2], reduce_s[2];
    cr_assert_eq(plan_machine_find("dgx-h100", &machine), ERR_NONE);
    for (int i = 0; i < 2; i++) {
        struct config config;
        struct plan plan;
        const struct config_options options = {.world = 64, .set = &meshes[i], .set_count = (size_t)i};
        struct plan_setting setting = {.config = &config, .machine = &machine, .world = 64};
        cr_assert_eq(config_load_preset("zero3", &options, &config, NULL), ERR_NONE, "%s", err_message());
        cr_assert_eq(plan_model_find("gpt2-xl", 1, &setting.model), ERR_NONE);
        cr_assert_eq(plan_run(&setting, &plan), ERR_NONE, "%s", err_message());
        gather_s[i] = reduce_s[i] = 0;
        for (int k = 0; k < plan.part_count; k++) {
            gather_s[i] += strcmp(plan.parts[k].name, "all-gather") == 0 ? plan.parts[k].busy_s : 0;
            reduce_s[i] += strcmp(plan.parts[k].name, "all-reduce") == 0 ? plan.parts[k].busy_s : 0;
        }
        plan_free(&plan);
    }
    cr_expect_lt(gather_s[1], 0.99 * gather_s[0], "%g, %g", gather_s[0], gather_s[1]);
    cr_expect_eq(reduce_s[0], 0);
    cr_expect_gt(reduce_s[1], 0);
}
