// SPDX-License-Identifier: Apache-2.0
// The bits of a Llama's gradients depend on parameters and micro-batch, and on nothing else.
#include "ref/model/gpt_test.h"
#include "ref/model/llama/llama.h"

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

Test(llama_bits, gradients_in_16_bits_are_those_of_rounded_operands)
{
    struct model *model = llama(&shapes[0]);
    cr_rounded_operands(model, 0.2);
    llama_free(model);
}

Test(llama_bits, every_build_of_the_kernels_gives_the_same_bits)
{
    int builds = 0;
    for (int s = 0; s < SHAPES; s++) {
        struct model *model = llama(&shapes[s]);
        builds += cr_same_in_every_build(model);
        llama_free(model);
    }
    if (builds == 0)
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
        cr_checkpoints_suffice(model);
        cr_assert(shapes[s].layers == 1 ||
                  model_run_bytes(model, 3, DTYPE_FP32, true) < model_run_bytes(model, 3, DTYPE_FP32, false));
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
    cr_skipped_gradients_change_no_other(model);
    llama_free(model);
}

Test(llama_bits, an_overflow_inside_the_model_shows_in_the_gradients)
{
    struct model *model = llama(&shapes[0]);
    cr_overflow_shows(model);
    llama_free(model);
}
