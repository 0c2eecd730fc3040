// SPDX-License-Identifier: Apache-2.0
// The bits of a Llama's gradients depend on parameters and micro-batch, and on nothing else.
#include "ref/model/gpt_test.h"
#include "ref/model/llama/llama.h"

#include "ref/arithmetic/isa_test.h"

#include <math.h>
#include <stdio.h>

static const struct placing plain = {0};

// Widths of less than a vector, of whole vectors, and with a remainder; more positions than attention has in a block.
static const struct llama_sizes shapes[] = {
    {2, 24, 4, 2, 13, 11, 7}, {1, 48, 3, 1, 50, 50, 17}, {2, 64, 4, 4, 172, 256, 67}, {1, 2, 1, 1, 1, 2, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct model *llama(const struct llama_sizes *sizes)
{
    struct model *model;
    cr_assert(llama_make("llama-test", sizes, &model) == ERR_NONE, "%s", err_message());
    return model;
}

static double norm_of(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += ((double)a[j] - (b ? (double)b[j] : 0)) * ((double)a[j] - (b ? (double)b[j] : 0));
    return sqrt(sum);
}

// A gradient is off by some roundings of its dtype, and by more than the one that hands it over.
Test(llama_bits, gradients_in_16_bits_are_those_of_rounded_operands)
{
    const double rounding[] = {[DTYPE_BF16] = 0x1p-8, [DTYPE_FP16] = 0x1p-11};
    const enum dtype halves[] = {DTYPE_BF16, DTYPE_FP16};
    struct model *model = llama(&shapes[0]);
    for (int d = 0; d < 2; d++) {
        enum dtype dtype = halves[d];
        struct trial half = trial_make(model, 3, dtype, plain), wide = trial_make(model, 3, DTYPE_FP32, plain);
        for (int i = 0; i < model->param_count; i++)
            memcpy(wide.params[i], half.values[i], model->params[i].count * sizeof(float));
        trial_pass(&half, 8.0f);
        trial_pass(&wide, 8.0f);
        double loss = fabs(model_loss(half.run) / model_loss(wide.run) - 1);
        cr_expect(loss > 0 && loss < 4 * rounding[dtype], "%s: the loss is off by %g", dtype_name(dtype), loss);
        for (int i = 0; i < model->param_count; i++) {
            size_t count = model->params[i].count;
            float found[count], *exact = wide.gradients[i].data;
            dtype_widen(dtype, half.gradients[i].data, found, count);
            double off = norm_of(found, exact, count) / norm_of(exact, NULL, count) / rounding[dtype];
            cr_expect(off > 0.2 && off < 10, "%s in %s is off by %.2f roundings", model->params[i].name,
                      dtype_name(dtype), off);
        }
        trial_free(&half);
        trial_free(&wide);
    }
    llama_free(model);
}

Test(llama_bits, every_build_of_the_kernels_gives_the_same_bits)
{
    int builds = 0;
    for (int s = 0; s < SHAPES; s++) {
        struct model *model = llama(&shapes[s]);
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
        llama_free(model);
    }
    if (builds == 3 * SHAPES)
        printf("TEST SKIPPED: this processor has one build of the kernels only\n");
}

// Enough rows that threads share every loop.
Test(llama_bits, any_number_of_threads_gives_the_same_bits)
{
    const struct llama_sizes sizes = {2, 96, 6, 2, 136, 256, 67};
    struct model *model = llama(&sizes);
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_BF16; dtype++) {
        struct trial first = trial_make(model, 44, dtype, plain);
        first.run->threads = 1;
        trial_pass(&first, 1.0f);
        for (int threads = 2; threads <= 5; threads += 3) {
            struct trial trial = trial_make(model, 44, dtype, plain);
            trial.run->threads = threads;
            trial_pass(&trial, 1.0f);
            cr_assert(model_loss(trial.run) == model_loss(first.run), "%d threads", threads);
            cr_same_gradients(&trial, &first);
            trial_free(&trial);
        }
        trial_free(&first);
    }
    llama_free(model);
}

Test(llama_bits, checkpointing_gives_the_bits_of_a_run_that_keeps_everything_in_less_memory)
{
    for (int s = 0; s < SHAPES; s++) {
        struct model *model = llama(&shapes[s]);
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
            struct trial whole = trial_make(model, 3, dtype, plain);
            struct trial frugal = trial_make_as(model, 3, dtype, (struct placing){.edge = true}, true);
            size_t bytes = model_run_bytes(model, 3, dtype, true);
            cr_assert(shapes[s].layers == 1 || bytes < model_run_bytes(model, 3, dtype, false));
            trial_pass(&whole, 8.0f);
            trial_forward(&frugal);
            memset(model_run_memory(frugal.run), 0xff, bytes);  // backward reads the checkpoints alone
            trial_backward(&frugal, 8.0f);
            cr_same_gradients(&frugal, &whole);
            cr_assert(isfinite(model_loss(whole.run)) && model_loss(frugal.run) == model_loss(whole.run));
            trial_free(&frugal);
            trial_free(&whole);
        }
        llama_free(model);
    }
}

Test(llama_bits, a_pass_stays_inside_its_memory_and_reads_no_uninitialised_bytes)
{
    for (int s = 0; s < SHAPES; s++) {
        struct model *model = llama(&shapes[s]);
        cr_stays_inside(model);
        llama_free(model);
    }
}

Test(llama_bits, skipped_gradients_change_no_other)
{
    struct model *model = llama(&shapes[0]);
    struct trial all = trial_make(model, 3, DTYPE_FP32, plain);
    trial_pass(&all, 1.0f);
    for (int parity = 0; parity < 2; parity++) {
        struct trial some = trial_make(model, 3, DTYPE_FP32, plain);
        for (int i = parity; i < model->param_count; i += 2)
            some.gradients[i].data = NULL;
        trial_pass(&some, 1.0f);
        for (int i = 1 - parity; i < model->param_count; i += 2)
            cr_assert(memcmp(some.gradients[i].data, all.gradients[i].data, gradient_bytes(&all, i)) == 0, "%s",
                      model->params[i].name);
        trial_free(&some);
    }
    trial_free(&all);
    llama_free(model);
}

Test(llama_bits, an_overflow_inside_the_model_shows_in_the_gradients)
{
    struct model *model = llama(&shapes[0]);
    for (int param = 0; param < model->param_count; param++) {
        struct trial trial = trial_make(model, 3, DTYPE_FP32, plain);
        float *values = trial.params[param];
        values[param == 0 ? trial.tokens[0] * shapes[0].width : 0] = INFINITY;  // the row of a token that occurs
        trial_pass(&trial, 1.0f);
        bool finite = true;
        for (int i = 0; i < model->param_count; i++)
            for (size_t j = 0; j < model->params[i].count; j++)
                finite = finite && isfinite(((float *)trial.gradients[i].data)[j]);
        cr_assert(!finite, "an infinity in %s is lost", model->params[param].name);
        trial_free(&trial);
    }
    llama_free(model);
}
