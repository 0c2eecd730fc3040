// SPDX-License-Identifier: Apache-2.0
// The bits of a GPT's gradients depend on parameters and micro-batch, and on nothing else.
#include "ref/model/gpt_test.h"

#include <pthread.h>

static double rounding_of(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 0 : dtype == DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
}

// The gradients as fp32.
static float *gradient_of(const struct trial *trial, int param)
{
    size_t count = trial->model->params[param].count;
    float *values = malloc(count * sizeof *values);
    dtype_widen(trial->run->dtype, trial->gradients[param].data, values, count);
    return values;
}

Test(gpt_bits, gradients_in_16_bits_are_those_of_rounded_operands)
{
    struct model *model = make(&odd_shape);
    cr_rounded_operands(model, 0.3);
    gpt_free(model);
}

// The head's part alone, the embedding's part alone, and both in one tensor: the sum of both is rounded once, so that
// it lies between the sums with the ends of the interval that the embedding's part was rounded from.
Test(gpt_bits, a_tied_gradient_is_the_heads_part_plus_the_embeddings_part_in_every_dtype)
{
    struct model *model = make(&odd_shape);
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        struct trial both = trial_make(model, ODD_SEQUENCES, dtype, plain);
        struct trial apart = trial_make(model, ODD_SEQUENCES, dtype, plain);
        size_t count = model->params[0].count;
        trial_pass(&both, 1.0f);
        trial_forward(&apart);
        float *head = NULL;
        for (int layer = model->layer_count - 1; layer >= 0; layer--) {
            cr_assert(model_backward(apart.run, layer, &apart.batch, (const void *const *)apart.params, apart.gradients,
                                     1.0f, NULL) == ERR_NONE);
            if (layer == model->layer_count - 1)
                head = gradient_of(&apart, 0);
        }
        float *sum = gradient_of(&both, 0), *part = gradient_of(&apart, 0), ends[2][count];
        for (size_t j = 0; j < count; j++)
            for (int end = 0; end < 2; end++) {
                float margin = fabsf(part[j]) * (float)rounding_of(dtype);
                ends[end][j] = head[j] + (end ? part[j] + margin : part[j] - margin);
            }
        for (int end = 0; end < 2; end++) {
            char rounded[count * sizeof(float)];
            dtype_narrow(dtype, ends[end], rounded, count);
            dtype_widen(dtype, rounded, ends[end], count);
        }
        for (size_t j = 0; j < count; j++)
            cr_assert(ends[0][j] <= sum[j] && sum[j] <= ends[1][j], "%s, element %zu: %a is not %a + %a",
                      dtype_name(dtype), j, (double)sum[j], (double)head[j], (double)part[j]);
        free(head);
        free(sum);
        free(part);
        trial_free(&both);
        trial_free(&apart);
    }
    gpt_free(model);
}

Test(gpt_bits, skipped_gradients_change_no_other)
{
    struct model *model = make(&odd_shape);
    cr_skipped_gradients_change_no_other(model);
    gpt_free(model);
}

Test(gpt_bits, a_power_of_two_as_loss_scale_scales_every_gradient_exactly)
{
    struct model *model = make(&odd_shape);
    cr_scales_exactly(model, 1024.0f);
    gpt_free(model);
}

static void *caller_run(void *trial)
{
    for (int i = 0; i < 3; i++)
        trial_pass(trial, 1.0f);
    return NULL;
}

// Different threads, addresses and neighbours; small and large shapes.
Test(gpt_bits, concurrent_callers_at_any_alignment_get_the_bits_of_one_caller)
{
    const struct gpt_shape shapes[] = {odd_shape,
                                       {2, 64, 4, 64, 256, .tile_count = 1, .product_blocks = 1},
                                       {1, 256, 4, 128, 256, .tile_count = 1, .product_blocks = 1}};
    for (int s = 0; s < 3; s++) {
        struct model *model = make(&shapes[s]);
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
            struct trial lone = trial_make(model, 2, dtype, plain), callers[4];
            const size_t offsets[4] = {1, 3, 5, 21};  // elements
            pthread_t threads[4];
            trial_pass(&lone, 1.0f);
            for (int t = 0; t < 4; t++) {
                callers[t] = trial_make(model, 2, dtype, (struct placing){.offset = offsets[t] * dtype_bytes(dtype)});
                cr_assert(pthread_create(&threads[t], NULL, caller_run, &callers[t]) == 0);
            }
            for (int t = 0; t < 4; t++) {
                pthread_join(threads[t], NULL);
                cr_same_gradients(&callers[t], &lone);
                trial_free(&callers[t]);
            }
            trial_free(&lone);
        }
        gpt_free(model);
    }
}

// Widths of less than a vector, of whole vectors, and of whole vectors and a remainder.
Test(gpt_bits, every_build_of_the_kernels_gives_the_same_bits)
{
    const struct gpt_shape shapes[] = {odd_shape,
                                       {2, 64, 4, 64, 256, .tile_count = 1, .product_blocks = 1},
                                       {1, 48, 3, 17, 50, .tile_count = 1, .product_blocks = 1},
                                       {1, 3, 1, 1, 2, .tile_count = 1, .product_blocks = 1},
                                       {2, 34, 2, 33, 19, .tile_count = 8, .product_blocks = 1}};
    int builds = 0;
    for (int s = 0; s < 5; s++) {
        struct model *model = make(&shapes[s]);
        builds += cr_same_in_every_build(model);
        gpt_free(model);
    }
    if (builds == 0)
        printf("TEST SKIPPED: this processor has one build of the kernels only\n");
}

Test(gpt_bits, a_pass_stays_inside_its_memory_and_reads_no_uninitialised_bytes)
{
    const struct gpt_shape shapes[] = {odd_shape,
                                       {2, 64, 4, 64, 256, .tile_count = 1, .product_blocks = 1},
                                       {1, 48, 3, 17, 50, .tile_count = 1, .product_blocks = 1},
                                       {2, 21, 3, 5, 11, .tile_count = 4, .product_blocks = 1}};
    for (int s = 0; s < 4; s++) {
        struct model *model = make(&shapes[s]);
        cr_stays_inside(model);
        gpt_free(model);
    }
}

Test(gpt_bits, an_overflow_inside_the_model_shows_in_the_gradients)
{
    struct model *model = make(&odd_shape);
    cr_overflow_shows(model);
    gpt_free(model);
}
