// SPDX-License-Identifier: Apache-2.0
// What the ranks of each group of a mesh send one another, by the papers' formulas from the model's sizes alone,
// against the bytes that runs sent: within shard groups and between them (MiCS, 2-hop gradient synchronization), within
// the groups of hpZ (ZeRO++, section 3.2), and among the ranks that cut layers, the layers or the experts.
#include "ref/train/offload_test.h"
#include "ref/model/names/model_find.h"

enum { STEPS = 2, MICRO_STEPS = 2, P_BYTES = 2, C_BYTES = 2, FLOAT_BYTES = 4 };

// Bytes that a rank sends to each other one for the norm, and for the loss, in all steps.
static const uint64_t NORM_BYTES = STEPS * (sizeof(uint32_t) + sizeof(struct norm_sum)),
                      LOSS_BYTES = STEPS * sizeof(struct train_report_of_rank);

static struct offload_trial trial_of(const char *model, int stage, int world)
{
    return OFFLOAD_TRIAL(.model = model, .stage = stage, .world = world, .steps = STEPS, .accumulation = MICRO_STEPS);
}

// Runs the trial and demands these bytes of all ranks together, by group.
static void expect(const struct offload_trial *t, const uint64_t bytes[GROUP_COUNT])
{
    struct train_result result = offload_demand(t);
    for (int group = 0; group < GROUP_COUNT; group++)
        cr_expect_eq(result.group_bytes[group], bytes[group], "%s groups sent %llu, expected %llu\n%s",
                     ledger_group_name((enum ledger_group)group), (unsigned long long)result.group_bytes[group],
                     (unsigned long long)bytes[group], offload_name(t));
}

// Elements of a model's parameters, by what sends them.
struct elements {
    uint64_t trained, all;
    uint64_t gathered;  // in one pass over the layers, which gathers a tied weight for each of its uses
    uint64_t experts;   // of them in mixtures; trained
};

static struct elements elements_of(const char *name)
{
    const struct model *model;
    struct elements e = {0};
    cr_assert_eq(model_find(name, &model), ERR_NONE, "%s", err_message());
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *param = &model->params[i];
        e.trained += param->frozen ? 0 : param->count;
        e.all += param->count;
        e.gathered += param->count * (uint64_t)param->layer_count;
        e.experts += param->expert ? param->count : 0;
    }
    return e;
}

// Elements that all N ranks of a partition send for one pass, per element of the model, are N-1: each rank's shard to
// every other one, or every other one's to it. A stage's passes over parameters and over gradients:
static uint64_t pass_bytes(int stage, const struct elements *e)
{
    uint64_t scatters = stage == 1 ? 1 : MICRO_STEPS;
    uint64_t gathered = stage == 3 ? 2 * MICRO_STEPS * e->gathered : e->trained;
    return STEPS * (scatters * C_BYTES * e->trained + P_BYTES * gathered);
}

Test(formula_mesh, replicas_add_one_hop_a_step_between_groups_and_change_nothing_within_them)
{
    static const int meshes[][2] = {{2, 2}, {4, 1}, {3, 2}, {2, 3}, {4, 2}, {2, 4}};
    const struct elements e = elements_of("linear-exact");
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++)
        for (int stage = 1; stage <= 3; stage++) {
            uint64_t groups = (uint64_t)meshes[i][0], shards = (uint64_t)meshes[i][1], world = groups * shards;
            struct offload_trial t = trial_of("linear-exact", stage, (int)world);
            t.replicas = (int)groups;
            expect(&t, (uint64_t[GROUP_COUNT]){
                           [GROUP_WORLD] = world * (world - 1) * LOSS_BYTES,
                           [GROUP_SHARD] = groups * (shards - 1) * (pass_bytes(stage, &e) + shards * NORM_BYTES),
                           [GROUP_REPLICATE] = STEPS * 2 * (groups - 1) * C_BYTES * e.trained,
                       });
        }
}

// Backward's gathers stay within the groups of P ranks; forward's and the gradients go over all N.
Test(formula_mesh, a_second_copy_takes_backwards_gathers_from_the_world_into_its_groups)
{
    static const int cuts[][2] = {{4, 2}, {6, 2}, {6, 3}, {8, 4}};
    const struct elements e = elements_of("linear-exact");
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        uint64_t world = (uint64_t)cuts[i][0], ranks = (uint64_t)cuts[i][1];
        uint64_t passes = STEPS * MICRO_STEPS * (C_BYTES * e.trained + P_BYTES * e.gathered);
        struct offload_trial t = trial_of("linear-exact", 3, (int)world);
        t.secondary = (int)ranks;
        expect(&t, (uint64_t[GROUP_COUNT]){
                       [GROUP_WORLD] = (world - 1) * (passes + world * (NORM_BYTES + LOSS_BYTES)),
                       [GROUP_SECONDARY] = world / ranks * (ranks - 1) * STEPS * MICRO_STEPS * P_BYTES * e.gathered,
                   });
    }
}

enum { LAYERS = 4, WIDTH = 16, LENGTH = 16, VOCABULARY = 256, ROWS = 2 * LENGTH };
#define SHAPE "gpt:layers=4,width=16,length=16,vocabulary=256,heads=4"

// Each of the 4 L + 2 sums of R x d floats is sent twice but for the own part, and the loss gathers 3 floats per row.
Test(formula_mesh, the_ranks_that_cut_layers_send_their_sums_and_nothing_else)
{
    static const int meshes[][2] = {{2, 2}, {2, 3}, {4, 2}, {2, 4}};
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        uint64_t tensor = (uint64_t)meshes[i][0], world = tensor * (uint64_t)meshes[i][1];
        struct offload_trial t = trial_of(SHAPE ",blocks=4", 2, (int)world);
        t.tensor = (int)tensor;
        struct train_result result = offload_demand(&t);
        uint64_t sums = (4 * LAYERS + 2) * ROWS * WIDTH, others = tensor - 1;
        cr_expect_eq(result.group_bytes[GROUP_TENSOR],
                     STEPS * MICRO_STEPS * FLOAT_BYTES * (world / tensor) * others * (2 * sums + tensor * 3 * ROWS));
        cr_expect_eq(result.group_bytes[GROUP_MODEL], world * others * NORM_BYTES);
        cr_expect_eq(result.group_bytes[GROUP_WORLD], world * (world - 1) * LOSS_BYTES);
        cr_expect_eq(result.group_bytes[GROUP_PIPELINE], 0);
        // Each rank sends its slices of the 12 d^2 elements of a block's matrices to T-1 others, in fp32.
        t.muon = true;
        struct train_result whole = offload_demand(&t);
        cr_expect_eq(whole.group_bytes[GROUP_TENSOR] - result.group_bytes[GROUP_TENSOR],
                     STEPS * others * FLOAT_BYTES * LAYERS * 12 * WIDTH * WIDTH);
    }
}

// Activations, their gradients, and the tied embedding: its gradient to the first stage, its weight to the last.
Test(formula_mesh, the_stages_of_a_pipeline_send_borders_and_the_tied_weight)
{
    static const int meshes[][2] = {{2, 2}, {2, 3}, {4, 2}, {2, 4}};
    const struct elements e = elements_of(SHAPE);
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        uint64_t stages = (uint64_t)meshes[i][0], data = (uint64_t)meshes[i][1], world = stages * data;
        uint64_t border = FLOAT_BYTES * ROWS * WIDTH, tied = P_BYTES * VOCABULARY * WIDTH;
        struct offload_trial t = trial_of(SHAPE, 1, (int)world);
        t.pipeline = (int)stages;
        expect(&t, (uint64_t[GROUP_COUNT]){
                       [GROUP_WORLD] = world * (world - 1) * LOSS_BYTES,
                       [GROUP_SHARD] = (data - 1) * (pass_bytes(1, &e) + world * NORM_BYTES),
                       [GROUP_PIPELINE] = STEPS * data * (MICRO_STEPS * (2 * (stages - 1) * border + tied) + tied),
                       [GROUP_MODEL] = world * (stages - 1) * NORM_BYTES,
                   });
    }
}

// Four exchanges of capacity x top x tokens in each mixture; experts' states over the N/E ranks that hold the same.
Test(formula_mesh, expert_groups_send_tokens_and_those_of_the_same_experts_their_states)
{
    static const struct {
        const char *model;
        uint64_t experts, cut, world;
    } meshes[] = {{SHAPE ",experts=4,top=2", 4, 2, 4},
                  {SHAPE ",experts=6,top=2", 6, 3, 6},
                  {SHAPE ",experts=4,top=2", 4, 2, 8},
                  {SHAPE ",experts=8,top=2", 8, 8, 8}};
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++)
        for (int stage = 1; stage <= 2; stage++) {
            const struct elements e = elements_of(meshes[i].model);
            const struct elements dense = {.trained = e.trained - e.experts}, mixed = {.trained = e.experts};
            uint64_t world = meshes[i].world, cut = meshes[i].cut, same = world / cut;
            uint64_t slots = (2 * ROWS + meshes[i].experts - 1) / meshes[i].experts;
            uint64_t tokens = meshes[i].experts / cut * slots * WIDTH * FLOAT_BYTES;
            struct offload_trial t = trial_of(meshes[i].model, stage, (int)world);
            t.experts = (int)cut;
            expect(&t,
                   (uint64_t[GROUP_COUNT]){
                       [GROUP_WORLD] = (world - 1) * (pass_bytes(stage, &dense) + world * (NORM_BYTES + LOSS_BYTES)),
                       [GROUP_EXPERT] = STEPS * MICRO_STEPS * 4 * LAYERS * world * (cut - 1) * tokens,
                       [GROUP_EXPERT_DATA] = (same - 1) * pass_bytes(stage, &mixed),
                   });
        }
}
