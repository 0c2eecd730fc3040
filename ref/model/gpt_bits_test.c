// SPDX-License-Identifier: Apache-2.0
// The bits of a GPT's gradients depend on parameters and micro-batch, and on nothing else.
#include "ref/model/gpt_test.h"
#include "ref/arithmetic/isa_test.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>

static const struct placing plain = {0};

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

static double distance(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += ((double)a[j] - (b ? (double)b[j] : 0)) * ((double)a[j] - (b ? (double)b[j] : 0));
    return sqrt(sum);
}

// With the same parameters as in fp32, operands are rounded about ten times from a parameter to the loss and back: a
// gradient is off by some roundings of its dtype, and by more than the one that hands it over.
Test(gpt_bits, gradients_in_16_bits_are_those_of_rounded_operands)
{
    const enum dtype halves[] = {DTYPE_BF16, DTYPE_FP16};
    struct model *model = make(&odd_shape);
    for (int d = 0; d < 2; d++) {
        struct trial half = trial_make(model, ODD_SEQUENCES, halves[d], plain);
        struct trial wide = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
        for (int i = 0; i < model->param_count; i++)
            memcpy(wide.params[i], half.values[i], model->params[i].count * sizeof(float));
        trial_pass(&half, 8.0f);
        trial_pass(&wide, 8.0f);
        double loss = fabs(model_loss(half.run) / model_loss(wide.run) - 1);
        cr_expect(loss > 0 && loss < 4 * rounding_of(halves[d]), "%s: the loss is off by %g", dtype_name(halves[d]),
                  loss);
        for (int i = 0; i < model->param_count; i++) {
            size_t count = model->params[i].count;
            float *found = gradient_of(&half, i), *exact = wide.gradients[i].data;
            double off = distance(found, exact, count) / distance(exact, NULL, count) / rounding_of(halves[d]);
            cr_expect(off > 0.3 && off < 10, "%s in %s is off by %.2f roundings", model->params[i].name,
                      dtype_name(halves[d]), off);
            free(found);
        }
        trial_free(&half);
        trial_free(&wide);
    }
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
    struct trial all = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    trial_pass(&all, 1.0f);
    for (int parity = 0; parity < 2; parity++) {
        struct trial some = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
        for (int i = parity; i < model->param_count; i += 2)
            some.gradients[i].data = NULL;
        trial_pass(&some, 1.0f);
        for (int i = 1 - parity; i < model->param_count; i += 2)
            cr_assert(memcmp(some.gradients[i].data, all.gradients[i].data, gradient_bytes(&all, i)) == 0, "%s",
                      model->params[i].name);
        trial_free(&some);
    }
    trial_free(&all);
    gpt_free(model);
}

Test(gpt_bits, a_power_of_two_as_loss_scale_scales_every_gradient_exactly)
{
    struct model *model = make(&odd_shape);
    struct trial once = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    struct trial scaled = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    trial_pass(&once, 1.0f);
    trial_pass(&scaled, 1024.0f);
    cr_assert(model_loss(once.run) == model_loss(scaled.run));
    for (int i = 0; i < model->param_count; i++) {
        const float *a = once.gradients[i].data, *b = scaled.gradients[i].data;
        for (size_t j = 0; j < model->params[i].count; j++)
            cr_assert(a[j] * 1024.0f == b[j], "%s[%zu]", model->params[i].name, j);
    }
    trial_free(&once);
    trial_free(&scaled);
    gpt_free(model);
}

Test(gpt_bits, an_open_run_keeps_openblas_on_the_callers_thread)
{
    openblas_set_num_threads(2);
    struct model *model = make(&odd_shape);
    struct trial trial = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    cr_assert_eq(openblas_get_num_threads(), 1);
    trial_free(&trial);
    gpt_free(model);
}

static void *caller_run(void *trial)
{
    for (int i = 0; i < 3; i++)
        trial_pass(trial, 1.0f);
    return NULL;
}

// Different threads, addresses and neighbours; shapes that exercise the small and the large kernels of OpenBLAS.
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
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
            struct trial first = trial_make(model, 2, dtype, plain);
            isa_set(ISA_SCALAR);
            trial_pass(&first, 4.0f);
            for (EACH_ISA(isa)) {
                struct trial trial = trial_make(model, 2, dtype, plain);
                trial_pass(&trial, 4.0f);
                cr_assert(model_loss(trial.run) == model_loss(first.run), "%s", isa_name((enum isa)isa));
                cr_same_gradients(&trial, &first);
                trial_free(&trial);
                builds++;
            }
            trial_free(&first);
        }
        gpt_free(model);
    }
    if (builds == 15)
        printf("TEST SKIPPED: this processor has one build of the kernels only\n");
}

Test(gpt_bits, a_pass_stays_inside_its_memory_and_reads_no_uninitialised_bytes)
{
    const struct gpt_shape shapes[] = {odd_shape,
                                       {.block_count = 2,
                                        .width = 64,
                                        .head_count = 4,
                                        .sequence_length = 64,
                                        .vocabulary = 256,
                                        .tile_count = 1,
                                        .product_blocks = 1},
                                       {.block_count = 1,
                                        .width = 48,
                                        .head_count = 3,
                                        .sequence_length = 17,
                                        .vocabulary = 50,
                                        .tile_count = 1,
                                        .product_blocks = 1},
                                       {.block_count = 2,
                                        .width = 21,
                                        .head_count = 3,
                                        .sequence_length = 5,
                                        .vocabulary = 11,
                                        .tile_count = 4,
                                        .product_blocks = 1}};
    for (int s = 0; s < 4; s++) {
        struct model *model = make(&shapes[s]);
        cr_stays_inside(model);
        gpt_free(model);
    }
}

Test(gpt_bits, an_overflow_inside_the_model_shows_in_the_gradients)
{
    struct model *model = make(&odd_shape);
    for (int param = 0; param < model->param_count; param++) {
        struct trial trial = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
        float *values = trial.params[param];
        values[param == 0 ? trial.tokens[0] * odd_shape.width : 0] = INFINITY;  // the row of a token that occurs
        trial_pass(&trial, 1.0f);
        bool finite = true;
        for (int i = 0; i < model->param_count; i++) {
            for (size_t j = 0; j < model->params[i].count; j++)
                finite = finite && isfinite(((float *)trial.gradients[i].data)[j]);
        }
        cr_assert(!finite, "an infinity in %s is lost", model->params[param].name);
        trial_free(&trial);
    }
    gpt_free(model);
}
