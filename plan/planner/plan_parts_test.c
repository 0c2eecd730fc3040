// SPDX-License-Identifier: Apache-2.0
// Models from files, cut over tensor, pipeline and expert parallelism: what a rank holds and sends, by the formulas of
// Megatron-LM (arXiv 1909.08053, 2104.04473 and 2205.05198), for a dense Llama and a mixture of experts.
#include "plan/planner/plan.h"

#include "base/err.h"
#include "plan/planner/plan_model.h"
#include "plan/shape/decoder.h"
#include "ref/model/part.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct trial {
    const char *model, *preset, *mesh;
    int world, rank, micros;
    size_t tensor, length;
    bool sequence_parallel, checkpointing;
};

static int plan_rank(const struct trial *t, struct plan *out)
{
    char mesh[80], micros[48];
    const char *set[] = {mesh, micros, "train_micro_batch_size_per_gpu=1",
                         t->sequence_parallel ? "zerogauge.sequence_parallel=true"
                                              : "zerogauge.sequence_parallel=false",
                         t->checkpointing ? "zerogauge.activation_checkpointing.enabled=true"
                                          : "zerogauge.activation_checkpointing.enabled=false"};
    struct config config;
    struct plan_machine machine;
    struct plan_setting setting = {.config = &config, .machine = &machine, .world = t->world, .rank = t->rank};
    const struct config_options options = {.world = t->world, .set = set, .set_count = t->mesh[0] ? 5 : 4};
    const struct plan_model_variant variant = {
        .tensor = t->tensor, .sequence_length = t->length, .sequence_parallel = t->sequence_parallel};
    snprintf(mesh, sizeof mesh, "%s", t->mesh[0] ? t->mesh : set[4]);
    snprintf(micros, sizeof micros, "gradient_accumulation_steps=%d", t->micros > 0 ? t->micros : 1);
    cr_assert_eq(plan_machine_find("dgx-h100", &machine), ERR_NONE);
    cr_assert_eq(config_load_preset(t->preset, &options, &config, NULL), ERR_NONE, "%s", err_message());
    TRY(plan_model_find_variant(t->model, &variant, &setting.model));
    return plan_run(&setting, out);
}

static struct plan planned(struct trial t)
{
    struct plan plan;
    cr_assert_eq(plan_rank(&t, &plan), ERR_NONE, "%s", err_message());
    return plan;
}

static uint64_t parameter_count(const struct plan *plan)
{
    return plan->held_bytes[TIER_DEVICE][KIND_PARAMETER] / 2;
}

// Llama 3 70B: 80 blocks of 8,192 channels, 64 heads and 8 of keys, 28,672 hidden channels, 128,256 tokens.
enum { WIDTH = 8192, KEYS = 1024, HIDDEN = 28672, TOKENS = 128256, BLOCKS = 80, LENGTH = 1024 };
static const uint64_t block_matrices = UINT64_C(2) * WIDTH * WIDTH + 2 * WIDTH * KEYS + UINT64_C(3) * WIDTH * HIDDEN;

Test(plan_parts, a_rank_of_a_dense_model_has_its_slices_and_all_norms)
{
    struct plan cut = planned((struct trial){
        .model = "llama-70b", .preset = "zero0", .mesh = "zerogauge.mesh=tensor=8", .world = 8, .tensor = 8});
    uint64_t norms = 2 * BLOCKS * WIDTH + WIDTH, ends = UINT64_C(2) * TOKENS * WIDTH;
    cr_expect_eq(parameter_count(&cut), (BLOCKS * block_matrices + ends) / 8 + norms, "%" PRIu64,
                 parameter_count(&cut));
    struct plan first = planned((struct trial){.model = "llama-70b",
                                               .preset = "zero0",
                                               .mesh = "zerogauge.mesh=tensor=4,pipeline=4",
                                               .world = 16,
                                               .tensor = 4});
    cr_expect_eq(parameter_count(&first), (20 * block_matrices + ends / 2) / 4 + UINT64_C(2) * 20 * WIDTH, "%" PRIu64,
                 parameter_count(&first));
}

// Two all-reduces of the stream in a block's forward and two in its backward (1909.08053, section 3), each 2 (T-1)/T of
// its bytes; one for the embedding's output, and one for the gradient of the head's input. Recomputation makes one
// more. An all-reduce is an all-to-all and an all-gather; the loss gathers three values a token.
Test(plan_parts, tensor_parallelism_sends_two_sums_of_the_stream_a_block_and_pass)
{
    struct trial t = {.model = "llama-70b",
                      .preset = "zero0",
                      .mesh = "zerogauge.mesh=tensor=8",
                      .world = 8,
                      .tensor = 8,
                      .length = LENGTH};
    uint64_t slice = (uint64_t)LENGTH * WIDTH * sizeof(float) / 8 * 7, loss = 3 * LENGTH * sizeof(float) * 7;
    struct plan whole = planned(t);
    cr_expect_eq(whole.step_group_bytes[GROUP_TENSOR], 2 * (4 * BLOCKS + 2) * slice + loss, "%" PRIu64,
                 whole.step_group_bytes[GROUP_TENSOR]);
    t.checkpointing = true;
    struct plan again = planned(t);
    cr_expect_eq(again.step_group_bytes[GROUP_TENSOR], 2 * (5 * BLOCKS + 2) * slice + 2 * loss, "%" PRIu64,
                 again.step_group_bytes[GROUP_TENSOR]);
}

// Sequence parallelism sends as many bytes for the stream (2205.05198, section 4.2.2), gathers norms' outputs again in
// backward, the head's as well, and sums the gradients of norms.
Test(plan_parts, sequence_parallelism_gathers_and_scatters_what_is_summed_without)
{
    struct trial t = {.model = "llama-70b",
                      .preset = "zero0",
                      .mesh = "zerogauge.mesh=tensor=8",
                      .world = 8,
                      .tensor = 8,
                      .length = LENGTH,
                      .sequence_parallel = true};
    uint64_t slice = (uint64_t)LENGTH * WIDTH * sizeof(float) / 8 * 7, loss = 3 * LENGTH * sizeof(float) * 7;
    uint64_t norms = 2 * (2 * BLOCKS + 1) * WIDTH * sizeof(float) / 8 * 7;
    struct plan divided = planned(t);
    cr_expect_eq(divided.step_group_bytes[GROUP_TENSOR],
                 (4 * BLOCKS + 2) * slice + (6 * BLOCKS + 3) * slice + norms + loss, "%" PRIu64,
                 divided.step_group_bytes[GROUP_TENSOR]);
}

// A border passes b s h values forward and as many back for each micro-batch (2104.04473, section 3.2).
Test(plan_parts, a_pipeline_sends_the_stream_over_each_border)
{
    struct trial t = {.model = "llama-70b",
                      .preset = "zero1",
                      .mesh = "zerogauge.mesh=pipeline=4,shard=2",
                      .world = 8,
                      .micros = 6,
                      .length = LENGTH};
    uint64_t border = UINT64_C(6) * LENGTH * WIDTH * sizeof(float);
    struct plan first = planned(t);
    t.rank = 2;
    struct plan second = planned(t);
    cr_expect_eq(first.step_group_bytes[GROUP_PIPELINE], border);
    cr_expect_eq(second.step_group_bytes[GROUP_PIPELINE], 2 * border);
    cr_expect_float_eq(first.bubble, 3.0 / 9, 1e-12);
}

// Qwen3-30B-A3B: 48 blocks of 2,048 channels, 32 heads and 4 of keys of 128, 128 experts of 768 channels, of which a
// token uses 8. This file's shape has no norms of heads.
static const uint64_t attention = 2 * UINT64_C(2048) * 4096 + 2 * UINT64_C(2048) * 512,
                      expert = UINT64_C(3) * 2048 * 768, router = 128 * 2048, moe_norms = 2 * 2048,
                      moe_ends = UINT64_C(2) * 151936 * 2048 + 2048;

Test(plan_parts, a_rank_of_a_mixture_has_its_experts_and_the_whole_router)
{
    struct plan cut = planned((struct trial){
        .model = "qwen3-30b-a3b", .preset = "zero1", .mesh = "zerogauge.mesh=shard=8,expert=8", .world = 8});
    cr_expect_eq(parameter_count(&cut), 48 * (attention + router + moe_norms + 16 * expert) + moe_ends, "%" PRIu64,
                 parameter_count(&cut));
    struct plan both = planned((struct trial){.model = "qwen3-30b-a3b",
                                              .preset = "zero1",
                                              .mesh = "zerogauge.mesh=shard=4,tensor=2,expert=4",
                                              .world = 8,
                                              .tensor = 2});
    uint64_t own = 48 * (attention / 2 + router + moe_norms + 32 * expert / 2) + (moe_ends - 2048) / 2 + 2048;
    cr_expect_eq(parameter_count(&both), own, "%" PRIu64 " %" PRIu64, parameter_count(&both), own);
}

// Each token goes to 8 experts and back in forward, and so do gradients: (E-1)/E of 8 b s h values, four times; six
// with recomputation.
Test(plan_parts, experts_exchange_each_token_with_as_many_ranks_as_it_has_experts)
{
    struct trial t = {.model = "qwen3-30b-a3b",
                      .preset = "zero1",
                      .mesh = "zerogauge.mesh=shard=8,expert=8",
                      .world = 8,
                      .length = LENGTH};
    uint64_t tokens = UINT64_C(48) * 8 * LENGTH * 2048 * sizeof(float) / 8 * 7;
    struct plan plan = planned(t);
    cr_expect_eq(plan.step_group_bytes[GROUP_EXPERT], 4 * tokens, "%" PRIu64, plan.step_group_bytes[GROUP_EXPERT]);
    t.checkpointing = true;
    plan = planned(t);
    cr_expect_eq(plan.step_group_bytes[GROUP_EXPERT], 6 * tokens, "%" PRIu64, plan.step_group_bytes[GROUP_EXPERT]);
    // Tensor parallelism sums attention's output and the answers of a token's 8 experts, forward and backward.
    plan = planned((struct trial){.model = "qwen3-30b-a3b",
                                  .preset = "zero1",
                                  .mesh = "zerogauge.mesh=shard=4,tensor=2,expert=4",
                                  .world = 8,
                                  .tensor = 2,
                                  .length = LENGTH});
    uint64_t stream = (uint64_t)LENGTH * 2048 * sizeof(float), loss = 3 * LENGTH * sizeof(float);
    cr_expect_eq(plan.step_group_bytes[GROUP_TENSOR], 2 * (48 * (2 + 2 * 8) + 2) * stream / 2 + loss, "%" PRIu64,
                 plan.step_group_bytes[GROUP_TENSOR]);
}

Test(plan_parts, a_mesh_of_ones_is_no_mesh)
{
    static const char *const models[] = {"llama-8b", "qwen3-30b-a3b"};
    for (size_t i = 0; i < 2; i++) {
        struct plan none = planned((struct trial){.model = models[i], .preset = "zero3", .mesh = "", .world = 8});
        struct plan ones = planned((struct trial){.model = models[i],
                                                  .preset = "zero3",
                                                  .mesh = "zerogauge.mesh=shard=8,tensor=1,pipeline=1,expert=1",
                                                  .world = 8});
        cr_expect_arr_eq(none.held_bytes, ones.held_bytes, sizeof none.held_bytes);
        cr_expect_arr_eq(none.step_bytes, ones.step_bytes, sizeof none.step_bytes);
        cr_expect_arr_eq(none.device.total_bytes, ones.device.total_bytes, sizeof none.device.total_bytes);
        cr_expect_eq(none.step_s, ones.step_s);
    }
}

// The parts of all ranks have every element once.
Test(plan_parts, all_parts_together_are_the_model)
{
    static const struct {
        const char *model;
        int tensor, pipeline, experts;
    } meshes[] = {
        {"llama-8b", 8, 4, 1}, {"llama-405b", 4, 16, 1}, {"qwen3-30b-a3b", 4, 5, 16}, {"mixtral-8x7b", 2, 1, 8}};
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        const struct model *whole;
        struct model_part *part;
        uint64_t elements = 0;
        double flops = 0;
        cr_assert_eq(plan_model_find(meshes[i].model, 1, &whole), ERR_NONE);
        for (int p = 0; p < meshes[i].tensor * meshes[i].pipeline * meshes[i].experts; p++) {
            const struct model_place place = {p % meshes[i].tensor,
                                              meshes[i].tensor,
                                              p / meshes[i].tensor % meshes[i].pipeline,
                                              meshes[i].pipeline,
                                              p / meshes[i].tensor / meshes[i].pipeline,
                                              meshes[i].experts};
            cr_assert_eq(model_part_open(whole, &place, &part), ERR_NONE, "%s", err_message());
            for (int k = 0; k < part->model.param_count; k++)
                if (part->slices[k].counted && (place.expert == 0 || part->model.params[k].expert))
                    elements += part->model.params[k].count;
            flops += model_flops(&part->model, 1) / meshes[i].experts;
            model_part_close(part);
        }
        cr_expect_eq(elements, model_param_elements(whole, false), "%s: %" PRIu64, meshes[i].model, elements);
        // Every rank of tensor parallelism has the router.
        cr_expect_float_eq(flops, model_flops(whole, 1), 0.01 * flops, "%s", meshes[i].model);
    }
}

// A matrix to the heads loses rows, one back to the stream columns, and the slices of a column are as far apart as
// rows.
Test(plan_parts, matrices_are_cut_along_heads_and_hidden_channels)
{
    const struct model *whole;
    struct model_part *part;
    const struct model_place place = {.tensor = 3, .tensor_parts = 4, .pipeline_parts = 1, .expert_parts = 1};
    cr_assert_eq(plan_model_find("llama-8b", 1, &whole), ERR_NONE);
    cr_assert_eq(model_part_open(whole, &place, &part), ERR_NONE, "%s", err_message());
    for (int i = 0; i < part->model.param_count; i++) {
        const struct model_param *param = &part->model.params[i];
        bool is_query = strstr(param->name, ".wq.") != NULL, is_down = strstr(param->name, ".down.") != NULL;
        cr_expect(!is_query || (param->shape[0] == 1024 && param->shape[1] == 4096), "%s", param->name);
        cr_expect(!is_down || (param->shape[0] == 4096 && param->shape[1] == 14336 / 4), "%s", param->name);
        cr_expect(!is_down || (part->slices[i].begin == 3 * 14336 / 4 && part->slices[i].stride == 14336));
        cr_expect(!is_query || (part->slices[i].begin == 3 * 1024 * 4096 && part->slices[i].block_count == 1));
    }
    model_part_close(part);
}

// Llama 3's 126 blocks: 7 in the first and the last stage, 8 in each other.
Test(plan_parts, stages_that_do_not_divide_the_blocks_count_the_ends_as_blocks)
{
    static const size_t cases[][3] = {{126, 16, 7}, {94, 16, 5}, {61, 8, 7}, {32, 4, 8}};
    for (size_t i = 0; i < 4; i++) {
        size_t sum = 0;
        for (size_t stage = 0; stage < cases[i][1]; stage++)
            sum += decoder_stage_blocks(cases[i][0], cases[i][1], stage);
        cr_expect_eq(sum, cases[i][0]);
        cr_expect_eq(decoder_stage_blocks(cases[i][0], cases[i][1], 0), cases[i][2]);
    }
    cr_expect_eq(decoder_stage_blocks(126, 16, 15), 7);
    cr_expect_eq(decoder_stage_blocks(126, 16, 1), 8);
}

Test(plan_parts, a_degree_that_cuts_nothing_evenly_is_refused)
{
    static const struct {
        struct trial trial;
        const char *expected;
    } cases[] = {
        {{.model = "llama-8b", .mesh = "zerogauge.mesh=shard=8,expert=8"}, "no experts that expert=8 could cut"},
        {{.model = "mixtral-8x7b", .mesh = "zerogauge.mesh=shard=16,expert=16"},
         "does not divide the model's 8 experts"},
        {{.model = "llama3.2-1b", .mesh = "zerogauge.mesh=pipeline=32"}, "a stage without blocks"},
        {{.model = "llama-8b",
          .mesh = "zerogauge.mesh=tensor=8",
          .tensor = 8,
          .length = 1001,
          .sequence_parallel = true},
         "1001 tokens of a sequence"},
    };
    struct plan plan;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trial t = cases[i].trial;
        t.preset = "zero1";
        t.world = strstr(t.mesh, "32") ? 32 : strstr(t.mesh, "16") ? 16 : 8;
        cr_expect_eq(plan_rank(&t, &plan), ERR_USAGE, "%s", cases[i].expected);
        cr_expect(strstr(err_message(), cases[i].expected), "%s", err_message());
    }
}
