// SPDX-License-Identifier: Apache-2.0
// Sequence parallelism changes the order of the sums over the stream's rows and nothing else, and a part keeps 1/T of
// all activations.
#include "ref/model/gpt_test.h"
#include "ref/model/part.h"

static struct model *model_of(size_t sequence_parallel, enum more more, size_t layers)
{
    return make_with(more, (struct gpt_shape){layers, 32, 4, 16, 12, .tile_count = 1, .product_blocks = 4,
                                              .sequence_parallel = sequence_parallel});
}

// A layer norm's, or the bias of a c_proj, which is added to the stream.
static bool is_sum_over_rows(const char *name)
{
    const char *end = strrchr(name, '.');
    return strstr(name, "ln_") ||
           (end - name > 6 && memcmp(end - 6, "c_proj.bias", 11) == 0 && !strstr(name, "expert"));
}

static void expect_other_sums_over_rows_alone(enum more more, bool checkpointing)
{
    struct model *whole = model_of(0, more, 2), *divided = model_of(1, more, 2);
    struct trial a = trial_make_as(whole, 3, DTYPE_FP32, plain, false);
    struct trial b = trial_make_as(divided, 3, DTYPE_FP32, (struct placing){.edge = true}, checkpointing);
    int sums = 0, changed = 0;
    trial_pass(&a, 2.0f);
    trial_pass(&b, 2.0f);
    cr_expect_float_eq(model_loss(b.run), model_loss(a.run), more == ADAPTERS ? 1e-6 : 0);
    for (int i = 0; i < whole->param_count; i++) {
        const char *name = whole->params[i].name;
        bool same = memcmp(a.gradients[i].data, b.gradients[i].data, gradient_bytes(&a, i)) == 0;
        cr_expect_lt(cr_distance(&a, &b, i), 1e-5, "%s", name);
        // The products by which adapters add to the stream have fewer rows, which may change their bits.
        cr_expect(same || is_sum_over_rows(name) || more == ADAPTERS, "%s", name);
        sums += is_sum_over_rows(name);
        changed += is_sum_over_rows(name) && !same;
    }
    cr_expect_gt(2 * changed, sums, "%d of %d sums over rows have another order", changed, sums);
    trial_free(&a);
    trial_free(&b);
    gpt_free(whole);
    gpt_free(divided);
}

Test(gpt_sequence, sums_over_rows_alone_have_another_order)
{
    for (int more = 0; more < MORE_COUNT; more++)
        for (int checkpointing = 0; checkpointing < 2; checkpointing++)
            expect_other_sums_over_rows_alone((enum more)more, checkpointing);
}

// A part of `parts` keeps this of one block.
static size_t kept_bytes(size_t sequence_parallel, int parts)
{
    enum { SEQUENCES = 2 };
    size_t bytes[2];
    for (size_t layers = 1; layers <= 2; layers++) {
        struct model *model = model_of(sequence_parallel, NOTHING, layers);
        const struct model_place place = {.tensor_parts = parts, .pipeline_parts = 1, .expert_parts = 1};
        struct model_part *part;
        cr_assert_eq(model_part_open(model, &place, &part), ERR_NONE, "%s", err_message());
        bytes[layers - 1] = model_run_bytes(&part->model, SEQUENCES, DTYPE_FP32, false);
        cr_expect_eq(model_checkpoint_bytes(&part->model, 1, SEQUENCES),
                     SEQUENCES * 16 * 32 * sizeof(float) / (sequence_parallel ? (size_t)parts : 1));
        model_part_close(part);
        gpt_free(model);
    }
    return bytes[1] - bytes[0];
}

// Two values of the stream, their statistics, and 8 x width values of attention and MLP with attention's statistics.
Test(gpt_sequence, a_part_keeps_its_rows_of_the_stream)
{
    const size_t rows = 2 * 16, stream = rows * (2 * 32 + 4), cut = rows * (8 * 32 + 2 * 4);
    for (int parts = 1; parts <= 4; parts *= 2) {
        size_t ranks = (size_t)parts;
        cr_expect_eq(kept_bytes(0, parts), sizeof(float) * (stream + cut / ranks), "%d: %zu", parts,
                     kept_bytes(0, parts));
        cr_expect_eq(kept_bytes(1, parts), sizeof(float) * (stream + cut) / ranks, "%d: %zu", parts,
                     kept_bytes(1, parts));
    }
}

// A GPT over blocks computes the function of one without: losses and gradients differ by roundings alone.

static struct model *with_blocks(size_t blocks, enum more more)
{
    return make_with(more, (struct gpt_shape){2, 24, 4, 6, 12, .tile_count = 1, .product_blocks = blocks});
}

static void expect_the_function_without_blocks(size_t blocks, enum more more, bool checkpointing)
{
    struct model *whole = with_blocks(1, more), *cut = with_blocks(blocks, more);
    struct trial a = trial_make_as(whole, 3, DTYPE_FP32, plain, false);
    struct trial b = trial_make_as(cut, 3, DTYPE_FP32, (struct placing){.edge = true}, checkpointing);
    trial_pass(&a, 2.0f);
    trial_pass(&b, 2.0f);
    cr_expect_float_eq(model_loss(b.run), model_loss(a.run), 1e-6 * model_loss(a.run));
    for (int i = 0; i < whole->param_count; i++)
        cr_expect_lt(cr_distance(&a, &b, i), 1e-5, "%s: %g", whole->params[i].name, cr_distance(&a, &b, i));
    trial_free(&a);
    trial_free(&b);
    gpt_free(whole);
    gpt_free(cut);
}

Test(gpt_cut, blocks_change_roundings_alone)
{
    for (size_t blocks = 2; blocks <= 4; blocks *= 2)
        for (int checkpointing = 0; checkpointing < 2; checkpointing++)
            for (int more = 0; more < MORE_COUNT; more++)
                expect_the_function_without_blocks(blocks, (enum more)more, checkpointing);
}

Test(gpt_cut, checkpoints_keep_the_bits)
{
    for (int more = 0; more < MORE_COUNT; more++) {
        struct model *model = with_blocks(2, (enum more)more);
        cr_checkpoints_suffice(model);
        gpt_free(model);
    }
}
