// SPDX-License-Identifier: Apache-2.0
// The bits of the kernels that threads share, whatever the number of threads.
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static float *random_floats(enum dtype dtype, size_t count, uint64_t key)
{
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = random_normal(random_at(key, i));
    operand_round(dtype, count, values, values);
    return values;
}

// More elements than a thread takes alone; the rows are no multiple of those of a block.
enum { ROWS = 803, WIDTH = 400, LENGTH = 170, SEQUENCES = 3, HEADS = 20 };

// All kernels that threads share, one after the other; returns `count` floats of results.
static float *all_kernels(size_t *count)
{
    float *in = random_floats(DTYPE_BF16, ROWS * WIDTH, 1), *gradient = random_floats(DTYPE_BF16, ROWS * WIDTH, 2);
    float *weight = random_floats(DTYPE_BF16, WIDTH, 3), *bias = random_floats(DTYPE_BF16, WIDTH, 4);
    enum { RESULTS = 6 };
    *count = RESULTS * ROWS * WIDTH + 4 * ROWS + 1;
    float *all = calloc(*count, sizeof *all), *part[RESULTS], *stats = all + RESULTS * ROWS * WIDTH;
    for (int i = 0; i < RESULTS; i++)
        part[i] = all + i * ROWS * WIDTH;
    bias_rows(ROWS, WIDTH, DTYPE_BF16, bias, part[0]);
    bias_add(ROWS, WIDTH, in, DTYPE_BF16, bias, part[1]);
    layernorm_forward(ROWS, WIDTH, in, stats, DTYPE_BF16, weight, bias, part[2]);
    gelu_forward(ROWS, WIDTH, in, DTYPE_BF16, bias, part[3]);
    gelu_backward(ROWS, WIDTH, in, gradient, DTYPE_BF16, bias, part[0], part[4], NULL, NULL);
    uint16_t tokens[ROWS + 1];
    for (size_t i = 0; i <= ROWS; i++)
        tokens[i] = (uint16_t)(random_at(5, i) % WIDTH);
    // Sequences of 73 positions, whose last target is a token that is no row's.
    const struct token_rows rows = {tokens, 10, 73};
    memcpy(part[5], in, 730 * WIDTH * sizeof *in);
    stats[4 * ROWS] = (float)crossentropy_forward(&rows, WIDTH, WIDTH, part[5], stats + 2 * ROWS, 0, DTYPE_BF16);
    crossentropy_backward(&rows, WIDTH, WIDTH, stats + 2 * ROWS, 0.25f, DTYPE_BF16, part[5]);
    free(in);
    free(gradient);
    free(weight);
    free(bias);
    return all;
}

Test(gpt_math, kernels_over_rows_have_the_bits_of_any_number_of_threads)
{
    size_t count;
    math_set_threads(1);
    float *first = all_kernels(&count);
    for (int threads = 2; threads <= 5; threads++) {
        math_set_threads(threads);
        float *again = all_kernels(&count);
        cr_expect_arr_eq(again, first, count * sizeof *again, "%d threads", threads);
        free(again);
    }
    free(first);
}

Test(gpt_math, attention_has_the_bits_of_any_number_of_threads)
{
    enum { ALL = SEQUENCES * LENGTH * WIDTH };
    const struct attention_shape shape = {SEQUENCES, LENGTH, WIDTH, HEADS, DTYPE_BF16, 0};
    float *qkv = random_floats(DTYPE_BF16, 3 * ALL, 1), *gradient = random_floats(DTYPE_BF16, ALL, 2);
    size_t stats_count = attention_stats_count(&shape), count = 4 * ALL + stats_count;
    float *scratch = malloc(attention_scratch_count(&shape) * sizeof *scratch);
    float *first = malloc(count * sizeof *first), *again = malloc(count * sizeof *again);
    for (int threads = 1; threads <= 5; threads++) {
        float *to = threads == 1 ? first : again;
        math_set_threads(threads);
        attention_forward(&shape, qkv, to, to + 4 * ALL, scratch);
        attention_backward(&shape, qkv, to, to + 4 * ALL, gradient, to + ALL, scratch);
        if (threads > 1)
            cr_expect_arr_eq(again, first, count * sizeof *first, "%d threads", threads);
    }
    float *const all[] = {qkv, gradient, scratch, first, again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}
