// SPDX-License-Identifier: Apache-2.0
// Attention whose heads share keys and values has the bits of attention with repeated keys and values, and a shared
// head's gradients sum up those with which its repetitions end. Rotary positions turn back.
#include "ref/arithmetic/isa_test.h"
#include "ref/arithmetic/llama_math.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { HEADS = 6, HEAD = 10, WIDTH = HEADS * HEAD, LENGTH = 2 * ATTENTION_BLOCK + 3, SEQUENCES = 2 };
enum { ROWS = SEQUENCES * LENGTH };

static float *random_operand(enum dtype dtype, size_t count, uint64_t key)
{
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = random_normal(random_at(key, i));
    operand_round(dtype, count, values, values);
    return values;
}

struct attended {
    float *out, *gradient;
};

static struct attended attend(const struct attention_shape *shape, size_t stride, const float *qkv, const float *g)
{
    struct attended x = {malloc(ROWS * WIDTH * sizeof(float)), malloc(ROWS * stride * sizeof(float))};
    float *stats = malloc(attention_stats_count(shape) * sizeof *stats);
    float *scratch = malloc(attention_scratch_count(shape) * sizeof *scratch);
    attention_forward(shape, qkv, x.out, stats, scratch);
    attention_backward(shape, qkv, x.out, stats, g, x.gradient, scratch);
    free(stats);
    free(scratch);
    return x;
}

// Rows of q, k and v with the shared heads repeated.
static float *repeated(const float *shared, size_t group)
{
    size_t kv_width = WIDTH / group, stride = WIDTH + 2 * kv_width;
    float *rows = malloc(ROWS * 3 * WIDTH * sizeof *rows);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t head = 0; head < HEADS; head++)
            for (size_t j = 0; j < HEAD; j++) {
                const float *from = shared + r * stride;
                float *to = rows + r * 3 * WIDTH + head * HEAD + j;
                to[0] = from[head * HEAD + j];
                to[WIDTH] = from[WIDTH + head / group * HEAD + j];
                to[2 * WIDTH] = from[WIDTH + kv_width + head / group * HEAD + j];
            }
    return rows;
}

static void expect_sums(const float *shared, const float *apart, size_t group, double unit)
{
    size_t kv_width = WIDTH / group, stride = WIDTH + 2 * kv_width;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < 2 * kv_width; i++) {
            size_t part = i / kv_width, head = i % kv_width / HEAD, j = i % HEAD;
            double sum = 0, size = 0;
            for (size_t h = head * group; h < (head + 1) * group; h++) {
                double term = (double)apart[r * 3 * WIDTH + (1 + part) * WIDTH + h * HEAD + j];
                sum += term;
                size += fabs(term);
            }
            double error = fabs((double)shared[r * stride + WIDTH + i] - sum);
            cr_assert(error <= unit * size + 1e-6, "row %zu, channel %zu: off by %g of %g", r, i, error, size);
        }
}

Test(llama_math, heads_that_share_keys_and_values_attend_as_if_these_were_repeated)
{
    const double unit[] = {[DTYPE_FP32] = 0x1p-20, [DTYPE_BF16] = 0x1p-7, [DTYPE_FP16] = 0x1p-10};
    const size_t groups[] = {1, 2, 3, 6};
    for (EACH_ISA(isa))
        for (size_t i = 0; i < 12; i++) {
            size_t group = groups[i / 3], kv_width = WIDTH / group, stride = WIDTH + 2 * kv_width;
            enum dtype dtype = (enum dtype)(i % 3);
            const struct attention_rows rows = {WIDTH, stride, WIDTH, WIDTH + kv_width, group};
            const struct attention_shape shape = {SEQUENCES, LENGTH, WIDTH, HEADS, dtype, &rows};
            const struct attention_shape apart = {SEQUENCES, LENGTH, WIDTH, HEADS, dtype, NULL};
            float *qkv = random_operand(dtype, ROWS * stride, 1), *g = random_operand(dtype, ROWS * WIDTH, 2);
            float *wide = repeated(qkv, group);
            struct attended found = attend(&shape, stride, qkv, g), expected = attend(&apart, 3 * WIDTH, wide, g);
            cr_assert_arr_eq(found.out, expected.out, ROWS * WIDTH * sizeof(float), "groups of %zu", group);
            for (size_t r = 0; r < ROWS; r++)
                cr_assert_arr_eq(found.gradient + r * stride, expected.gradient + r * 3 * WIDTH, WIDTH * sizeof(float),
                                 "groups of %zu, row %zu", group, r);
            expect_sums(found.gradient, expected.gradient, group, unit[dtype]);
            float *const all[] = {qkv, g, wide, found.out, found.gradient, expected.out, expected.gradient};
            for (size_t a = 0; a < sizeof all / sizeof *all; a++)
                free(all[a]);
        }
}

// Turned and turned back, values are as before but for roundings; the first position stays as it is.
Test(llama_math, rotary_positions_turn_back)
{
    enum { HALF = HEAD / 2, STRIDE = WIDTH + 7 };
    float cosines[LENGTH * HALF], sines[LENGTH * HALF];
    rotary_fill(LENGTH, HEAD, cosines, sines);
    const struct rotary rotary = {LENGTH, HEADS, HEAD, STRIDE, cosines, sines, DTYPE_FP32};
    float *before = random_operand(DTYPE_FP32, ROWS * STRIDE, 3), *rows = malloc(ROWS * STRIDE * sizeof *rows);
    memcpy(rows, before, ROWS * STRIDE * sizeof *rows);
    rotary_turn(&rotary, false, ROWS, rows);
    cr_expect_arr_eq(rows, before, STRIDE * sizeof *rows);
    cr_expect_arr_neq(rows + STRIDE, before + STRIDE, WIDTH * sizeof *rows);
    for (size_t r = 0; r < ROWS; r++)
        cr_assert_arr_eq(rows + r * STRIDE + WIDTH, before + r * STRIDE + WIDTH, 7 * sizeof *rows, "behind the heads");
    rotary_turn(&rotary, true, ROWS, rows);
    for (size_t i = 0; i < ROWS * STRIDE; i++)
        cr_assert(fabsf(rows[i] - before[i]) < 2e-6f, "%zu: %g, not %g", i, (double)rows[i], (double)before[i]);
    free(before);
    free(rows);
}
