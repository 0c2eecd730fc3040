// SPDX-License-Identifier: Apache-2.0
// A GPT over blocks computes the function of one without: losses and gradients differ by roundings alone.
#include "ref/model/gpt_test.h"

#include <math.h>

// More: none, adapters of rank 5 on all modules, or experts.
enum more { NOTHING, ADAPTERS, EXPERTS, MORE_COUNT };

static struct model *with_blocks(size_t blocks, enum more more)
{
    struct gpt_shape shape = {.block_count = 2,
                              .width = 24,
                              .head_count = 4,
                              .sequence_length = 6,
                              .vocabulary = 12,
                              .tile_count = 1,
                              .product_blocks = blocks};
    if (more == ADAPTERS)
        shape.lora = (struct lora){5, 7, "all-linear"};
    if (more == EXPERTS)
        shape.experts = (struct gpt_experts){4, 2, 800, 0};
    return make(&shape);
}

// The largest difference of two gradients, in parts of the largest element.
static double distance(const struct trial *a, const struct trial *b, int param)
{
    const float *x = a->gradients[param].data, *y = b->gradients[param].data;
    double difference = 0, largest = 0;
    for (size_t i = 0; x && i < a->model->params[param].count; i++) {
        difference = fmax(difference, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)x[i]));
    }
    return largest > 0 ? difference / largest : difference;
}

static void expect_the_function_without_blocks(size_t blocks, enum more more, bool checkpointing)
{
    struct model *whole = with_blocks(1, more), *cut = with_blocks(blocks, more);
    struct trial a = trial_make_as(whole, 3, DTYPE_FP32, (struct placing){0}, false);
    struct trial b = trial_make_as(cut, 3, DTYPE_FP32, (struct placing){.edge = true}, checkpointing);
    trial_pass(&a, 2.0f);
    trial_pass(&b, 2.0f);
    cr_expect_float_eq(model_loss(b.run), model_loss(a.run), 1e-6 * model_loss(a.run));
    for (int i = 0; i < whole->param_count; i++)
        cr_expect_lt(distance(&a, &b, i), 1e-5, "%s: %g", whole->params[i].name, distance(&a, &b, i));
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

static void expect_the_bits_without_checkpoints(enum more more)
{
    struct model *model = with_blocks(2, more);
    struct trial a = trial_make_as(model, 3, DTYPE_BF16, (struct placing){0}, false);
    struct trial b = trial_make_as(model, 3, DTYPE_BF16, (struct placing){.offset = 4}, true);
    trial_pass(&a, 1.0f);
    trial_pass(&b, 1.0f);
    cr_same_gradients(&a, &b);
    trial_free(&a);
    trial_free(&b);
    gpt_free(model);
}

Test(gpt_cut, checkpoints_keep_the_bits)
{
    for (int more = 0; more < MORE_COUNT; more++)
        expect_the_bits_without_checkpoints((enum more)more);
}
