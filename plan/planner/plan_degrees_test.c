// SPDX-License-Identifier: Apache-2.0
// Context parallelism and interleaved stages, which the reference lacks: their memory, traffic and bubbles, by the
// formulas of their papers.
#include "plan/planner/plan_degrees.h"

#include "base/err.h"
#include "plan/planner/plan.h"
#include "plan/planner/plan_model.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct trial {
    const char *preset, *model, *mesh;
    int world, micros, interleave;
    size_t length, tensor;
    bool checkpoints, sequence_parallel;
};

static int plan_trial(const struct trial *t, struct plan *out)
{
    char mesh[128] = "zerogauge.mesh=", micros[48];
    struct config config;
    struct plan_machine machine;
    struct plan_setting setting = {.config = &config, .machine = &machine, .world = t->world};
    TRY(plan_mesh_read(t->mesh, mesh + strlen(mesh), &setting.choice));
    const char *set[] = {
        micros, "train_micro_batch_size_per_gpu=1",
        t->checkpoints ? "zerogauge.activation_checkpointing.enabled=true"
                       : "zerogauge.activation_checkpointing.enabled=false",
        t->sequence_parallel ? "zerogauge.sequence_parallel=true" : "zerogauge.sequence_parallel=false", mesh};
    const struct config_options options = {.world = t->world,
                                           .plans = true,
                                           .sequence_ranks = setting.choice.context,
                                           .set = set,
                                           .set_count = strchr(mesh, '=')[1] ? 5 : 4};
    const struct plan_model_variant variant = {.tensor = t->tensor,
                                               .sequence_length = t->length,
                                               .sequence_parallel = t->sequence_parallel,
                                               .whole_experts = setting.choice.whole_experts,
                                               .context = (size_t)setting.choice.context};
    setting.choice.interleave = t->interleave;
    snprintf(micros, sizeof micros, "gradient_accumulation_steps=%d", t->micros);
    cr_assert_eq(plan_machine_find("dgx-h100", &machine), ERR_NONE);
    TRY(config_load_preset(t->preset, &options, &config, NULL));
    TRY(plan_model_find_variant(t->model, &variant, &setting.model));
    return plan_run(&setting, out);
}

static struct plan planned(struct trial t)
{
    struct plan plan;
    cr_assert_eq(plan_trial(&t, &plan), ERR_NONE, "%s", err_message());
    return plan;
}

static uint64_t line_bytes(const struct plan *plan, const char *name)
{
    for (int i = 0; i < plan->device.line_count; i++)
        if (strcmp(plan->device.lines[i].name, name) == 0)
            return plan->device.lines[i].bytes[TIER_DEVICE];
    return 0;
}

Test(plan_degrees, a_mesh_has_ranks_of_context_among_those_that_share_states)
{
    static const struct {
        const char *text, *mesh;
        int context;
    } cases[] = {
        {"tensor=8,context=16,pipeline=16,shard=8", "shard=128,tensor=8,pipeline=16", 16},
        {"context=4,tensor=2", "shard=4,tensor=2", 4},
        {"context=8", "", 8},
        {"shard=8,expert=4", "shard=8,expert=4", 1},
        {"replicate=2,context=2", "replicate=2,shard=2", 2},
        {"expert_tensor=1,tensor=2,shard=8,context=2,expert=16", "shard=16,tensor=2,expert=8", 2},
        {"tensor=2,shard=8,expert=4,expert_tensor=2", "shard=8,tensor=2,expert=4", 1},
    };
    static const char *const refused[] = {"context=0",
                                          "context=2,context=2",
                                          "context=x,shard=2",
                                          "contexts=2",
                                          "context=1048576,shard=2",
                                          "context=2,",
                                          "expert_tensor=1",
                                          "tensor=4,shard=8,expert=8,expert_tensor=2",
                                          "tensor=4,shard=6,expert=6,expert_tensor=1"};
    char text[MESH_TEXT_BYTES];
    struct framework_choice choice;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(plan_mesh_read(cases[i].text, text, &choice), ERR_NONE, "%s", err_message());
        cr_expect_str_eq(text, cases[i].mesh);
        cr_expect_eq(choice.context, cases[i].context);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        cr_expect_eq(plan_mesh_read(refused[i], text, &choice), ERR_USAGE, "%s", refused[i]);
}

// Eight ranks with 4,096 of a sequence's 32,768 tokens hold the activations of 4,096, and share states as eight do.
// Llama 3 8B has 1,024 channels of keys and of values in each of 32 blocks.
Test(plan_degrees, ranks_of_context_hold_their_tokens_and_pass_keys_and_values_round)
{
    struct trial t = {.preset = "zero3", .model = "llama-8b", .mesh = "context=8", .world = 8, .micros = 2};
    t.length = 32768;
    struct plan ring = planned(t);
    t.checkpoints = true;
    struct plan again = planned(t);
    t = (struct trial){
        .preset = "zero3", .model = "llama-8b", .mesh = "shard=8", .world = 8, .micros = 2, .length = 4096};
    struct plan own = planned(t);
    static const char *const alike[] = {"activations", "gradients", "optimizer", "master", "gathered", "logits"};
    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++)
        cr_expect_eq(line_bytes(&ring, alike[i]), line_bytes(&own, alike[i]), "%s", alike[i]);
    uint64_t part = UINT64_C(4096) * 2 * 1024 * 2;
    cr_expect_eq(line_bytes(&ring, "ring"), 4 * part);
    cr_expect_eq(line_bytes(&own, "ring"), 0);
    cr_expect_eq(ring.ring_bytes, 2 * 32 * 7 * 3 * part, "%" PRIu64, ring.ring_bytes);
    cr_expect_eq(again.ring_bytes, 2 * 32 * 7 * 4 * part, "%" PRIu64, again.ring_bytes);
    cr_expect_eq(own.ring_bytes, 0);
    cr_expect_eq(ring.tokens, 2 * 32768);
    cr_expect_eq(own.tokens, 2 * 8 * 4096);
    // Attention is over eight times as many keys: 4 x width x tokens operations more for each token and block, times 3.
    double more = 3 * 2.0 * 4096 * 32 * 4 * 4096 * (32768 - 4096);
    cr_expect_float_eq(ring.model_flops - own.model_flops, more, 1e-9 * more);
}

// Of 4 stages of 20 blocks and 8 micro-batches: 3 / (V 8 + 3), and P + (P-1)/V micro-batches in the first stage.
Test(plan_degrees, an_interleaved_stage_has_a_shorter_bubble_and_more_in_flight)
{
    struct trial t = {
        .preset = "zero1", .model = "llama-70b", .mesh = "pipeline=4,shard=2", .world = 8, .micros = 8, .length = 1024};
    struct plan plain = planned(t);
    t.interleave = 5;
    struct plan turns = planned(t);
    cr_expect_float_eq(plain.bubble, 3.0 / 11, 1e-12);
    cr_expect_float_eq(turns.bubble, 3.0 / 43, 1e-12);
    double ratio = (double)line_bytes(&turns, "activations") / (double)line_bytes(&plain, "activations");
    cr_expect_float_eq(ratio, (4 + 3.0 / 5) / 4, 1e-9);
    cr_expect_eq(turns.step_group_bytes[GROUP_PIPELINE], 9 * plain.step_group_bytes[GROUP_PIPELINE]);
    cr_expect_lt(turns.bubble_s, plain.bubble_s / 4);
}

// Of stages 2 and 3 within a pipeline, which the reference lacks: each micro-batch reduces its gradients, of which a
// rank of four keeps a quarter, and stage 3 gathers parameters for it twice, but for a layer that stays from one pass
// to the next. Stage 1 reduces and gathers once.
Test(plan_degrees, every_micro_batch_of_a_pipeline_reduces_in_stage_2_and_gathers_in_stage_3)
{
    enum { MICROS = 8 };
    struct trial t = {
        .preset = "zero1", .model = "llama-8b", .mesh = "pipeline=4,shard=4", .world = 16, .micros = MICROS};
    t.length = 1024;
    struct plan one = planned(t);
    t.preset = "zero2";
    struct plan two = planned(t);
    t.preset = "zero3";
    struct plan three = planned(t);
    uint64_t once = one.step_sent_bytes[PURPOSE_REDUCE];
    cr_expect_gt(once, 1u << 30);
    cr_expect_eq(two.step_sent_bytes[PURPOSE_REDUCE], MICROS * once);
    cr_expect_eq(three.step_sent_bytes[PURPOSE_REDUCE], MICROS * once);
    cr_expect_eq(two.step_sent_bytes[PURPOSE_GATHER], one.step_sent_bytes[PURPOSE_GATHER]);
    cr_expect_eq(three.step_sent_bytes[PURPOSE_GATHER], 2 * MICROS * one.step_sent_bytes[PURPOSE_GATHER]);
    cr_expect_eq(two.held_bytes[TIER_DEVICE][KIND_GRADIENT], one.held_bytes[TIER_DEVICE][KIND_GRADIENT] / 4);
    cr_expect_eq(two.bubble, one.bubble);
}

// Qwen3-30B-A3B has 4 heads of keys of 128 channels and 32 of queries: 8 ranks keep one head each, and gather what the
// projection computed, 640 of 5,120 channels of a token on each rank, forward and in backward.
Test(plan_degrees, more_ranks_than_heads_of_keys_have_one_head_each)
{
    struct trial t = {.preset = "zero0", .model = "qwen3-30b-a3b", .mesh = "tensor=4", .world = 4, .tensor = 4};
    t.micros = 1;
    t.length = 1024;
    struct plan four = planned(t);
    t.mesh = "tensor=8";
    t.world = t.tensor = 8;
    struct plan eight = planned(t);
    uint64_t kept_four = 4 * 2048 + 2 * 1024 + 2 * 128 + 3 * 8 * 768 / 4,
             kept_eight = 4 * 2048 + 2 * 512 + 2 * 128 + 3 * 8 * 768 / 8;
    cr_expect_eq(line_bytes(&four, "activations"), 48 * 1024 * 2 * kept_four);
    cr_expect_eq(line_bytes(&eight, "activations"), 48 * 1024 * 2 * kept_eight);
    uint64_t gathered = 2 * 48 * 7 * UINT64_C(4) * 1024 * 640, loss = 3 * 4 * 1024;
    uint64_t sums = four.step_group_bytes[GROUP_TENSOR] - 3 * loss;  // of which a rank of 4 sends 3/4
    cr_expect_eq(eight.step_group_bytes[GROUP_TENSOR], sums / 6 * 7 + 7 * loss + gathered, "%" PRIu64,
                 eight.step_group_bytes[GROUP_TENSOR]);
}

// Qwen3-30B-A3B has 128 experts in each of 48 blocks, 8 for a token: 3 matrices of 2,048 x 768. Of 8 ranks each has 16
// of them, whole, or of 4 x 2 each a half of 32. It sends its 512 tokens of a sequence to the 8 ranks, and needs
// neither the others' nor a sum of answers: of the stream, attention alone gathers and scatters.
Test(plan_degrees, ranks_of_tensor_parallelism_have_whole_experts_and_their_own_tokens)
{
    enum { BLOCKS = 48, LENGTH = 1024, WIDTH = 2048 };
    struct trial t = {.preset = "zero1",
                      .model = "qwen3-30b-a3b",
                      .mesh = "tensor=2,shard=4,expert=8,expert_tensor=1",
                      .world = 8,
                      .micros = 2,
                      .length = LENGTH,
                      .tensor = 2,
                      .sequence_parallel = true};
    struct plan own = planned(t);
    t.mesh = "tensor=2,shard=4,expert=4";
    struct plan cut = planned(t);
    static const char *const alike[] = {"parameters", "gradients", "optimizer", "master", "activations", "logits"};
    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++)
        cr_expect_eq(line_bytes(&own, alike[i]), line_bytes(&cut, alike[i]), "%s", alike[i]);
    uint64_t experts = UINT64_C(3) * WIDTH * 768 * 16, attention = UINT64_C(2) * WIDTH * (4096 + 512) / 2,
             others = 128 * WIDTH + 2 * WIDTH, ends = UINT64_C(151936) * WIDTH + WIDTH;
    cr_expect_eq(line_bytes(&own, "parameters"), 2 * (BLOCKS * (experts + attention + others) + ends));
    uint64_t tokens = UINT64_C(4) * LENGTH / 2 * 8 / 8 * WIDTH;
    cr_expect_eq(own.step_group_bytes[GROUP_EXPERT], 2 * 4 * BLOCKS * 7 * tokens, "%" PRIu64,
                 own.step_group_bytes[GROUP_EXPERT]);
    uint64_t slice = UINT64_C(4) * LENGTH / 2 * WIDTH, norms = 2 * UINT64_C(4) * (2 * BLOCKS + 1) * WIDTH / 2;
    cr_expect_eq(own.step_group_bytes[GROUP_TENSOR],
                 2 * ((2 * BLOCKS + 2 + 3 * BLOCKS + 3) * slice + norms + 3 * 4 * LENGTH), "%" PRIu64,
                 own.step_group_bytes[GROUP_TENSOR]);
    cr_expect_eq(own.model_flops, cut.model_flops);
    cr_expect_lt(own.step_s, cut.step_s);
    t.sequence_parallel = false;
    t.mesh = "tensor=2,shard=4,expert=8,expert_tensor=1";
    cr_expect_eq(plan_trial(&t, &cut), ERR_USAGE);
    cr_expect(strstr(err_message(), "expected a mixture of experts of a config.json, and zerogauge.sequence_parallel"));
}

Test(plan_degrees, what_cannot_be_divided_is_refused)
{
    static const struct {
        struct trial trial;
        const char *expected;
    } cases[] = {
        {{.mesh = "context=8", .world = 12}, "does not divide the 12 ranks"},
        {{.mesh = "context=3", .world = 3}, "multiple of 6 tokens"},
        {{.mesh = "shard=2,contxt=2", .world = 4}, "or expert=E; a plan also has context=C and expert_tensor=1"},
        {{.mesh = "context=2", .world = 2, .model = "gpt2-xl"}, "expected a Llama or a config.json"},
        {{.mesh = "context=2", .world = 2, .model = "gpt3-175b"}, "expected a Llama or a config.json"},
        {{.mesh = "tensor=2,shard=2,expert=2,expert_tensor=1", .world = 4, .tensor = 2},
         "expected a mixture of experts"},
        {{.mesh = "shard=8", .world = 8, .interleave = 2}, "expected pipeline=P"},
        {{.mesh = "pipeline=8", .world = 8, .micros = 4, .interleave = 2}, "from 8 stages on"},
        {{.mesh = "pipeline=8", .world = 8, .micros = 8, .interleave = 5}, "has only 4 blocks"},
        {{.mesh = "tensor=12", .world = 12, .tensor = 12, .model = "llama3.2-3b"}, "8 heads of keys and values"},
    };
    struct plan plan;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trial t = cases[i].trial;
        t.preset = "zero1";
        t.micros += t.micros == 0;
        t.model = t.model ? t.model : "llama-8b";
        cr_expect_eq(plan_trial(&t, &plan), ERR_USAGE, "%s", cases[i].expected);
        cr_expect(strstr(err_message(), cases[i].expected), "%s", err_message());
    }
}
