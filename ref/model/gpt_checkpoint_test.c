// SPDX-License-Identifier: Apache-2.0
// Activation checkpointing gives the bits of a run that keeps all activations, in the memory of one block.
#include "ref/model/gpt_test.h"

static const struct gpt_shape shapes[] = {
    {2, 21, 3, 5, 11, .tile_count = 1, .product_blocks = 1},   {1, 48, 3, 17, 50, .tile_count = 1, .product_blocks = 1},
    {3, 64, 4, 64, 256, .tile_count = 1, .product_blocks = 1}, {5, 16, 2, 1, 7, .tile_count = 1, .product_blocks = 1},
    {2, 21, 3, 5, 11, .tile_count = 3, .product_blocks = 1},   {1, 48, 3, 17, 50, .tile_count = 2, .product_blocks = 1},
    {3, 64, 4, 64, 256, .tile_count = 4, .product_blocks = 1}, {2, 5, 1, 3, 5, .tile_count = 20, .product_blocks = 1}};
enum { SHAPE_COUNT = sizeof shapes / sizeof *shapes, SEQUENCES = 3 };

static void tokens_draw(struct trial *trial, uint64_t seed)
{
    const struct gpt_shape *shape = trial->model->shape;
    for (size_t i = 0; i < SEQUENCES * (shape->sequence_length + 1); i++)
        trial->tokens[i] = (uint16_t)random_below(random_at(seed, i), shape->vocabulary);
}

Test(gpt_checkpoint, losses_and_gradients_have_the_bits_of_a_run_that_keeps_everything)
{
    for (int s = 0; s < SHAPE_COUNT; s++) {
        struct model *model = make(&shapes[s]);
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
            struct trial whole = trial_make(model, SEQUENCES, dtype, plain);
            struct trial frugal = trial_make_as(model, SEQUENCES, dtype, plain, true);
            for (uint64_t micro = 0; micro < 3; micro++) {
                tokens_draw(&whole, micro);
                tokens_draw(&frugal, micro);
                trial_pass(&whole, 8.0f);
                trial_pass(&frugal, 8.0f);
                cr_same_gradients(&frugal, &whole);
                cr_assert(isfinite(model_loss(whole.run)) && model_loss(frugal.run) == model_loss(whole.run));
            }
            trial_free(&frugal);
            trial_free(&whole);
        }
        gpt_free(model);
    }
}

Test(gpt_checkpoint, backward_reads_only_the_checkpoints_of_forward)
{
    for (int s = 0; s < SHAPE_COUNT; s++) {
        struct model *model = make(&shapes[s]);
        cr_checkpoints_suffice(model);
        gpt_free(model);
    }
}

// Two micro-batches through one run: forward, forward, backward, backward.
Test(gpt_checkpoint, forwards_of_other_micro_batches_may_lie_between_forward_and_backward)
{
    struct model *model = make(&odd_shape);
    struct trial apart[2], together[2];
    for (int i = 0; i < 2; i++) {
        apart[i] = trial_make(model, SEQUENCES, DTYPE_BF16, plain);
        together[i] = trial_make_as(model, SEQUENCES, DTYPE_BF16, plain, true);
        tokens_draw(&apart[i], (uint64_t)i);
        tokens_draw(&together[i], (uint64_t)i);
        trial_pass(&apart[i], 1.0f);
    }
    struct model_run *own = together[1].run;
    together[1].run = together[0].run;
    trial_forward(&together[0]);
    trial_forward(&together[1]);
    trial_backward(&together[0], 1.0f);
    trial_backward(&together[1], 1.0f);
    together[1].run = own;
    for (int i = 0; i < 2; i++) {
        cr_same_gradients(&together[i], &apart[i]);
        trial_free(&together[i]);
        trial_free(&apart[i]);
    }
    gpt_free(model);
}

// gpt-nano, two sequences: rows of 2 x 16. A block keeps of each x (16), two norms' statistics (2 each), qkv (48), two
// softmaxes' statistics (2 each), the attention's output (16), the middle (16) and fc (64). Without checkpointing the
// last output is kept too.
Test(gpt_checkpoint, a_run_has_memory_for_one_block_and_a_checkpoint_is_the_stream)
{
    const struct model *model = find("gpt-nano");
    const size_t rows = 2 * 16, block = rows * (16 + 2 + 48 + 4 + 16 + 16 + 2 + 64), last = rows * 16;
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++)
        cr_assert_eq(model_run_bytes(model, 2, dtype, false) - model_run_bytes(model, 2, dtype, true),
                     (block + last) * sizeof(float));
    cr_assert_eq(model_checkpoint_bytes(model, 0, 2), 0);
    for (int layer = 1; layer < model->layer_count; layer++)
        cr_assert_eq(model_checkpoint_bytes(model, layer, 2), rows * 16 * sizeof(float));

    struct gpt_shape shape = odd_shape;
    struct model *few = make(&shape), *many;
    shape.block_count = 31;
    many = make(&shape);
    cr_assert_eq(model_run_bytes(many, 3, DTYPE_BF16, true), model_run_bytes(few, 3, DTYPE_BF16, true));
    cr_assert_gt(model_run_bytes(many, 3, DTYPE_BF16, false), 5 * model_run_bytes(few, 3, DTYPE_BF16, false));
    gpt_free(few);
    gpt_free(many);

    model = find("linear");
    cr_assert_eq(model_run_bytes(model, 2, DTYPE_FP32, true), model_run_bytes(model, 2, DTYPE_FP32, false));
    for (int layer = 0; layer < model->layer_count; layer++)
        cr_assert_eq(model_checkpoint_bytes(model, layer, 2), 0);
}

Test(gpt_checkpoint, a_layer_without_memory_for_its_checkpoint_is_refused_by_name)
{
    struct model *model = make(&odd_shape);
    struct trial trial = trial_make_as(model, SEQUENCES, DTYPE_FP32, plain, true);
    const void *const *params = (const void *const *)trial.params;
    cr_assert_eq(model_forward(trial.run, 0, &trial.batch, params, NULL), ERR_NONE);
    cr_assert_eq(model_forward(trial.run, 1, &trial.batch, params, NULL), ERR_INTERNAL);
    cr_assert(strstr(err_message(), "h.0"), "%s", err_message());
    cr_assert_eq(model_backward(trial.run, 3, &trial.batch, params, trial.gradients, 1.0f, NULL), ERR_INTERNAL);
    cr_assert(strstr(err_message(), "head"), "%s", err_message());
    trial_free(&trial);
    gpt_free(model);
}
