// SPDX-License-Identifier: Apache-2.0
// Products of floats and of bf16 against sums of whole numbers, which are exact in every order; and the bits of all
// kernels, whatever the number of threads.
#include "base/err.h"
#include "ref/arithmetic/onednn.h"
#include "ref/arithmetic/dtype.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Padding of every row, and what it holds.
enum { PADDING = 3 };
static const float POISON = 0x1p100f;

static int whole_at(uint64_t key, size_t i)
{
    return (int)(random_at(key, i) >> 60) - 8;
}

// rows x columns of op, as its operand lies.
static struct matmul_operand whole_operand(uint64_t key, size_t rows, size_t columns, bool transposed)
{
    size_t lines = transposed ? columns : rows, length = transposed ? rows : columns, stride = length + PADDING;
    float *values = malloc(lines * stride * sizeof *values);
    for (size_t line = 0; line < lines; line++)
        for (size_t j = 0; j < stride; j++) {
            size_t row = transposed ? j : line, column = transposed ? line : j;
            values[line * stride + j] = j < length ? (float)whole_at(key, row * columns + column) : NAN;
        }
    return (struct matmul_operand){values, stride, transposed};
}

struct trial {
    size_t m, n, k;
    bool a_transposed, b_transposed, c_is_operand;
    float alpha, beta;
};

static void expect_whole_sums(const struct trial *t)
{
    struct matmul_operand a = whole_operand(1, t->m, t->k, t->a_transposed);
    struct matmul_operand b = whole_operand(2, t->k, t->n, t->b_transposed);
    size_t stride = t->n + PADDING, wrong = 0;
    float *c = malloc(t->m * stride * sizeof *c);
    for (size_t i = 0; i < t->m * stride; i++)
        c[i] = i % stride >= t->n ? POISON : t->beta == 0 ? NAN : 5;
    matmul_operands(
        &(struct matmul_product){t->m, t->n, t->k, t->alpha, t->beta, DTYPE_BF16, a, b, c, t->c_is_operand, stride});
    for (size_t i = 0; i < t->m; i++) {
        for (size_t j = 0; j < stride; j++) {
            long long sum = 0;
            for (size_t k = 0; j < t->n && k < t->k; k++)
                sum += whole_at(1, i * t->k + k) * whole_at(2, k * t->n + j);
            float expected = t->alpha * (float)sum + (t->beta == 0 ? 0 : t->beta * 5);
            if (t->c_is_operand)
                operand_round(DTYPE_BF16, 1, &expected, &expected);
            wrong += c[i * stride + j] != (j < t->n ? expected : POISON);
        }
    }
    cr_expect_eq(wrong, 0, "%zu elements are wrong: %zu x %zu x %zu, alpha %g, beta %g%s%s%s", wrong, t->m, t->n, t->k,
                 (double)t->alpha, (double)t->beta, t->a_transposed ? ", a transposed" : "",
                 t->b_transposed ? ", b transposed" : "", t->c_is_operand ? ", c an operand" : "");
    free((void *)a.data);
    free((void *)b.data);
    free(c);
}

// Around the borders of blocks of rows, of columns, and of k.
static void expect_all_whole_sums(void)
{
    static const size_t shapes[][3] = {{1, 1, 1},     {255, 3, 5},  {256, 8, 31},   {257, 9, 40},   {700, 13, 7},
                                       {3, 1023, 17}, {5, 1024, 2}, {2, 2049, 33},  {7, 11, 2047},  {4, 6, 2048},
                                       {3, 5, 2049},  {1, 2, 4099}, {257, 1025, 3}, {5, 1025, 2050}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (unsigned way = 0; way < 16; way++)
            expect_whole_sums(&(struct trial){shapes[i][0], shapes[i][1], shapes[i][2], way & 1, way & 2, way & 4, 1,
                                              way & 8 ? 1 : 0});
    expect_whole_sums(&(struct trial){300, 30, 20, false, true, false, 2, 1});
    expect_whole_sums(&(struct trial){300, 30, 20, true, false, false, 1, 0.5f});
}

Test(gpt_matmul, products_of_floats_are_the_sums)
{
    cr_assert_eq(matmul_prepare(), ERR_NONE);
    expect_all_whole_sums();
}

static bool bf16_is_here(void)
{
    if (onednn_load() != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", err_message());
        return false;
    }
    cr_assert_eq(matmul_prepare(), ERR_NONE);
    cr_assert_eq(matmul_set_bf16(true), ERR_NONE);
    return true;
}

Test(gpt_matmul, products_of_bf16_are_the_sums)
{
    if (!bf16_is_here())
        return;
    expect_all_whole_sums();
}

static float *random_floats(enum dtype dtype, size_t count, uint64_t key)
{
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = random_normal(random_at(key, i));
    operand_round(dtype, count, values, values);
    return values;
}

static void expect_products_of_any_threads(enum dtype dtype)
{
    enum { M = 700, N = 1300, K = 333 };
    float *a = random_floats(dtype, M * K, 1), *b = random_floats(dtype, K * N, 2);
    float *first = malloc(M * N * sizeof *first), *c = malloc(M * N * sizeof *c);
    for (int threads = 1; threads <= 5; threads++) {
        math_set_threads(threads);
        matmul_operands(&(struct matmul_product){
            M, N, K, 1, 0, dtype, {a, K, false}, {b, N, false}, threads == 1 ? first : c, true, N});
        if (threads > 1)
            cr_expect_arr_eq(c, first, M * N * sizeof *c, "%d threads in %s", threads, dtype_name(dtype));
    }
    free(a);
    free(b);
    free(first);
    free(c);
}

Test(gpt_matmul, products_of_floats_have_the_bits_of_any_number_of_threads)
{
    cr_assert_eq(matmul_prepare(), ERR_NONE);
    expect_products_of_any_threads(DTYPE_FP32);
    expect_products_of_any_threads(DTYPE_FP16);
}

Test(gpt_matmul, products_of_bf16_have_the_bits_of_any_number_of_threads)
{
    if (!bf16_is_here())
        return;
    expect_products_of_any_threads(DTYPE_BF16);
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
    layernorm_stats(ROWS, WIDTH, in, stats);
    layernorm_apply(ROWS, WIDTH, in, stats, DTYPE_BF16, weight, bias, part[2]);
    gelu_forward(ROWS, WIDTH, in, DTYPE_BF16, bias, part[3]);
    gelu_backward(ROWS, WIDTH, in, gradient, DTYPE_BF16, bias, part[0], part[4]);
    uint16_t tokens[ROWS + 1];
    for (size_t i = 0; i <= ROWS; i++)
        tokens[i] = (uint16_t)(random_at(5, i) % WIDTH);
    // Sequences of 73 positions, whose last target is a token that is no row's.
    const struct token_rows rows = {tokens, 10, 73};
    memcpy(part[5], in, 730 * WIDTH * sizeof *in);
    stats[4 * ROWS] = (float)crossentropy_forward(&rows, WIDTH, WIDTH, part[5], stats + 2 * ROWS);
    crossentropy_backward(&rows, WIDTH, WIDTH, stats + 2 * ROWS, 0.25f, DTYPE_BF16, part[5]);
    free(in);
    free(gradient);
    free(weight);
    free(bias);
    return all;
}

Test(gpt_matmul, kernels_over_rows_have_the_bits_of_any_number_of_threads)
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

Test(gpt_matmul, attention_has_the_bits_of_any_number_of_threads)
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
