// SPDX-License-Identifier: Apache-2.0
// A GPT over blocks computes the function of one without: losses and gradients differ by roundings alone.
#include "ref/model/gpt_test.h"

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
