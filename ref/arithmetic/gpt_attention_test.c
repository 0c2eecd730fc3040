// SPDX-License-Identifier: Apache-2.0
// Attention against textbook loops in double; against its definition, written as loops over single rows, bit by bit;
// and every build against the scalar one.
#include "ref/arithmetic/dtype.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/isa_test.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { BLOCK = ATTENTION_BLOCK, WIDEST = 80 };

// Arrays of one call; `from` counts the sequences before, so that a call may have a part of another's batch.
struct arrays {
    struct attention_shape shape;
    size_t rows, head_width;
    float *qkv, *g, *out, *d, *stats, *scratch;
};

static float *floats(size_t count)
{
    float *values = malloc((count + 1) * sizeof *values);
    memset(values, 0xff, (count + 1) * sizeof *values);
    return values + 1;  // no more aligned than a float
}

static float *random_operand(enum dtype dtype, size_t count, uint64_t key, uint64_t first)
{
    float *values = floats(count);
    for (size_t i = 0; i < count; i++)
        values[i] = random_normal(random_at(key, first + i));
    operand_round(dtype, count, values, values);
    return values;
}

static struct arrays arrays_of(struct attention_shape shape, size_t from)
{
    size_t rows = shape.sequence_count * shape.sequence_length, first = from * shape.sequence_length * shape.width;
    return (struct arrays){.shape = shape,
                           .rows = rows,
                           .head_width = shape.width / shape.head_count,
                           .qkv = random_operand(shape.dtype, rows * 3 * shape.width, 1, 3 * first),
                           .g = random_operand(shape.dtype, rows * shape.width, 2, first),
                           .out = floats(rows * shape.width),
                           .d = floats(rows * 3 * shape.width),
                           .stats = floats(attention_stats_count(&shape)),
                           .scratch = floats(attention_scratch_count(&shape))};
}

static void arrays_free(struct arrays *x)
{
    float *const all[] = {x->qkv, x->g, x->out, x->d, x->stats, x->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i] - 1);
}

static void attend(struct arrays *x)
{
    attention_forward(&x->shape, x->qkv, x->out, x->stats, x->scratch);
    memset(x->scratch, 0xff, attention_scratch_count(&x->shape) * sizeof(float));
    attention_backward(&x->shape, x->qkv, x->out, x->stats, x->g, x->d, x->scratch);
}

// The vector of a position and head in rows of `parts` vectors of the shape's width.
static float *vector_at(const struct arrays *x, float *rows, size_t s, size_t position, size_t parts, size_t part,
                        size_t head)
{
    size_t row = s * x->shape.sequence_length + position;
    return rows + (row * parts + part) * x->shape.width + head * x->head_width;
}

enum { Q, K, V };

static double dot(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

// A value in double, and the sum of its terms' magnitudes, which its error is a share of.
struct term {
    double sum, size;
};

static void term_add(struct term *t, double value)
{
    t->sum += value;
    t->size += fabs(value);
}

// One head of one sequence by the textbook. of[0] is out, of[1 + part] the gradients of q, k and v.
struct textbook {
    struct term (*of[4])[WIDEST];
};

static void textbook_row(const struct arrays *x, size_t s, size_t head, size_t t, double *p, struct textbook *b)
{
    size_t width = x->head_width;
    double scale = 1 / sqrt((double)width), sum = 0, common = 0;
    const float *q = vector_at(x, x->qkv, s, t, 3, Q, head), *g = vector_at(x, x->g, s, t, 1, 0, head);
    for (size_t u = 0; u <= t; u++)
        sum += p[u] = exp(dot(q, vector_at(x, x->qkv, s, u, 3, K, head), width) * scale);
    for (size_t u = 0; u <= t; u++) {
        p[u] /= sum;
        common += p[u] * dot(g, vector_at(x, x->qkv, s, u, 3, V, head), width);
    }
    for (size_t u = 0; u <= t; u++) {
        const float *k = vector_at(x, x->qkv, s, u, 3, K, head), *v = vector_at(x, x->qkv, s, u, 3, V, head);
        double ds = p[u] * (dot(g, v, width) - common) * scale;
        for (size_t j = 0; j < width; j++) {
            term_add(&b->of[0][t][j], p[u] * (double)v[j]);
            term_add(&b->of[1 + V][u][j], p[u] * (double)g[j]);
            term_add(&b->of[1 + Q][t][j], ds * (double)k[j]);
            term_add(&b->of[1 + K][u][j], ds * (double)q[j]);
            // ds is a difference, whose error is a share of its parts.
            b->of[1 + Q][t][j].size += p[u] * fabs(common * scale * (double)k[j]);
            b->of[1 + K][u][j].size += p[u] * fabs(common * scale * (double)q[j]);
        }
    }
}

// The largest error, as a multiple of unit x the value's size.
static double textbook_error(struct arrays *x, size_t s, size_t head, double unit)
{
    size_t length = x->shape.sequence_length;
    struct textbook b;
    double *p = malloc(length * sizeof *p), worst = 0;
    for (int i = 0; i < 4; i++)
        b.of[i] = calloc(length, sizeof *b.of[i]);
    for (size_t t = 0; t < length; t++)
        textbook_row(x, s, head, t, p, &b);
    for (int i = 0; i < 4; i++)
        for (size_t t = 0; t < length; t++)
            for (size_t j = 0; j < x->head_width; j++) {
                const float *found =
                    i == 0 ? vector_at(x, x->out, s, t, 1, 0, head) : vector_at(x, x->d, s, t, 3, (size_t)i - 1, head);
                double error = fabs((double)found[j] - b.of[i][t][j].sum) / (unit * b.of[i][t][j].size + 1e-30);
                worst = error > worst || isnan(error) ? error : worst;
            }
    for (int i = 0; i < 4; i++)
        free(b.of[i]);
    free(p);
    return worst;
}

static const size_t lengths[] = {1, 2, 61, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 3 * BLOCK + 5};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

// In fp32 an element is a chain of at most length + head width + a few roundings of 2^-24, and the scores, below 32
// here, are known to as many of their own; random roundings leave far less. In 16 bits the operands p, ds and out add
// their format's unit, 2^-9 or 2^-11, a few times each.
static double error_allowed(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 40 : 8;
}

Test(gpt_attention, every_length_has_the_values_and_gradients_of_textbook_loops)
{
    const double unit[] = {[DTYPE_FP32] = 0x1p-24, [DTYPE_BF16] = 0x1p-9, [DTYPE_FP16] = 0x1p-11};
    const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    for (size_t i = 0; i < 3 * LENGTHS; i++) {
        size_t length = lengths[i / 3], head_width = i % 2 ? 3 : 24;
        enum dtype dtype = dtypes[i % 3];
        struct arrays x = arrays_of((struct attention_shape){2, length, 2 * head_width, 2, dtype, 0}, 0);
        attend(&x);
        for (size_t s = 0; s < 2; s++)
            for (size_t head = 0; head < 2; head++) {
                double error = textbook_error(&x, s, head, unit[dtype]);
                cr_assert(error <= error_allowed(dtype), "%s, length %zu, head %zu of sequence %zu: %g units",
                          dtype_name(dtype), length, head, s, error);
            }
        arrays_free(&x);
    }
}

// The definition (gpt_attention_kernel.h), one element at a time.
static float chain(const float *a, size_t a_step, const float *b, size_t b_step, size_t count, float sum)
{
    for (size_t j = 0; j < count; j++)
        sum = fmaf(a[j * a_step], b[j * b_step], sum);
    return sum;
}

static float lane_sum(const float *terms, size_t count)
{
    float lane[ROW_LANES] = {0};
    for (size_t j = 0; j < count; j++)
        lane[j % ROW_LANES] += terms[j];
    for (int half = ROW_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static void defined_forward(const struct arrays *x, size_t s, size_t head, size_t i, float *out, float *stats)
{
    size_t width = x->head_width, length = x->shape.sequence_length, stride = 3 * x->shape.width;
    float m = -INFINITY, l = 0, scale = 1.0f / sqrtf((float)width);
    for (size_t j = 0; j < width; j++)
        out[j] = 0;
    for (size_t key = 0; key <= i; key += BLOCK) {
        float p[BLOCK] = {0}, before = m;
        size_t count = length - key < BLOCK ? length - key : BLOCK;
        for (size_t j = 0; j < count && key + j <= i; j++) {
            p[j] = chain(vector_at(x, x->qkv, s, i, 3, Q, head), 1, vector_at(x, x->qkv, s, key + j, 3, K, head), 1,
                         width, 0) *
                   scale;
            m = p[j] > m ? p[j] : m;
        }
        for (size_t j = 0; j < count && key + j <= i; j++)
            p[j] = exp_within(p[j] - m);
        float rescale = exp_within(before - m);
        l = rescale * l + lane_sum(p, BLOCK);
        operand_round(x->shape.dtype, BLOCK, p, p);
        for (size_t j = 0; j < width; j++)
            out[j] = chain(p, 1, vector_at(x, x->qkv, s, key, 3, V, head) + j, stride, count, out[j] * rescale);
    }
    for (size_t j = 0; j < width; j++)
        out[j] *= 1.0f / l;
    operand_round(x->shape.dtype, width, out, out);
    stats[0] = m;
    stats[1] = 1.0f / l;
}

// p (length x length) and ds of one head; rows before a key's block have no part in its sums.
static void defined_scores(const struct arrays *x, size_t s, size_t head, float *p, float *ds)
{
    size_t width = x->head_width, length = x->shape.sequence_length;
    float scale = 1.0f / sqrtf((float)width), terms[WIDEST];
    for (size_t i = 0; i < length; i++) {
        const float *q = vector_at(x, x->qkv, s, i, 3, Q, head), *g = vector_at(x, x->g, s, i, 1, 0, head);
        const float *stats = x->stats + 2 * ((s * x->shape.head_count + head) * length + i);
        for (size_t j = 0; j < width; j++)
            terms[j] = g[j] * vector_at(x, x->out, s, i, 1, 0, head)[j];
        float row_sum = lane_sum(terms, width);
        for (size_t j = 0; j < length; j++) {
            float value = 0, slope = 0;
            if (j <= i) {
                float dots = chain(q, 1, vector_at(x, x->qkv, s, j, 3, K, head), 1, width, 0);
                value = exp_within(dots * scale - stats[0]) * stats[1];
                slope = value * (chain(g, 1, vector_at(x, x->qkv, s, j, 3, V, head), 1, width, 0) - row_sum);
            }
            operand_round(x->shape.dtype, 1, &value, &p[i * length + j]);
            operand_round(x->shape.dtype, 1, &slope, &ds[i * length + j]);
        }
    }
}

static void expect_bits(float found, float expected, const char *what, size_t length, size_t position, size_t j)
{
    cr_assert(memcmp(&found, &expected, sizeof found) == 0, "%s, length %zu, position %zu, element %zu: %a, not %a",
              what, length, position, j, (double)found, (double)expected);
}

static void expect_defined_backward(struct arrays *x, size_t s, size_t head, const float *p, const float *ds)
{
    size_t length = x->shape.sequence_length, stride = 3 * x->shape.width;
    float scale = 1.0f / sqrtf((float)x->head_width);
    for (size_t t = 0; t < length; t++) {
        size_t first = t / BLOCK * BLOCK, end = first + BLOCK < length ? first + BLOCK : length;
        for (size_t j = 0; j < x->head_width; j++) {
            float expected[] = {
                [Q] = chain(ds + t * length, 1, vector_at(x, x->qkv, s, 0, 3, K, head) + j, stride, end, 0) * scale,
                [K] = chain(ds + first * length + t, length, vector_at(x, x->qkv, s, first, 3, Q, head) + j, stride,
                            length - first, 0) *
                      scale,
                [V] = chain(p + first * length + t, length, vector_at(x, x->g, s, first, 1, 0, head) + j,
                            x->shape.width, length - first, 0)};
            operand_round(x->shape.dtype, 3, expected, expected);
            for (size_t part = 0; part < 3; part++)
                expect_bits(vector_at(x, x->d, s, t, 3, part, head)[j], expected[part], "a gradient", length, t, j);
        }
    }
}

static void expect_defined(struct arrays *x, size_t s, size_t head)
{
    size_t length = x->shape.sequence_length;
    float *p = malloc(length * length * sizeof *p), *ds = malloc(length * length * sizeof *ds);
    for (size_t t = 0; t < length; t++) {
        float out[WIDEST], stats[2];
        defined_forward(x, s, head, t, out, stats);
        for (size_t j = 0; j < x->head_width; j++)
            expect_bits(vector_at(x, x->out, s, t, 1, 0, head)[j], out[j], "out", length, t, j);
        for (size_t j = 0; j < 2; j++)
            expect_bits(x->stats[2 * ((s * x->shape.head_count + head) * length + t) + j], stats[j], "statistics",
                        length, t, j);
    }
    defined_scores(x, s, head, p, ds);
    expect_defined_backward(x, s, head, p, ds);
    free(p);
    free(ds);
}

Test(gpt_attention, every_build_has_the_bits_of_the_definition)
{
    const size_t head_widths[] = {3, 80, 17, 64, 32};
    for (EACH_ISA(isa)) {
        for (size_t i = 0; i < LENGTHS; i++) {
            struct arrays x = arrays_of(
                (struct attention_shape){2, lengths[i], 2 * head_widths[i % 5], 2, (enum dtype)(i % 3), 0}, 0);
            attend(&x);
            expect_defined(&x, 0, 1);
            expect_defined(&x, 1, 0);
            arrays_free(&x);
        }
    }
}

Test(gpt_attention, a_batch_has_the_bits_of_its_sequences)
{
    struct attention_shape shape = {3, 2 * BLOCK + 7, 40, 5, DTYPE_BF16, 0};
    struct arrays all = arrays_of(shape, 0);
    attend(&all);
    for (size_t s = 0; s < 3; s++) {
        struct attention_shape alone = shape;
        alone.sequence_count = 1;
        struct arrays x = arrays_of(alone, s);
        attend(&x);
        cr_expect_arr_eq(x.out, vector_at(&all, all.out, s, 0, 1, 0, 0), x.rows * shape.width * sizeof(float));
        cr_expect_arr_eq(x.d, vector_at(&all, all.d, s, 0, 3, 0, 0), 3 * x.rows * shape.width * sizeof(float));
        arrays_free(&x);
    }
    arrays_free(&all);
}

// An overflow anywhere in a row shows in the row's output.
Test(gpt_attention, what_is_not_finite_stays_visible)
{
    const float odd[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++)
        for (size_t at = 0; at < BLOCK + 9; at += BLOCK + 8) {
            struct arrays x = arrays_of((struct attention_shape){1, BLOCK + 9, 4, 1, DTYPE_FP32, 0}, 0);
            vector_at(&x, x.qkv, 0, at, 3, Q, 0)[2] = odd[i];
            attend(&x);
            cr_expect(isnan(x.out[at * 4]), "%g at %zu", (double)odd[i], at);
            cr_expect(isnan(vector_at(&x, x.d, 0, at, 3, Q, 0)[0]), "%g at %zu", (double)odd[i], at);
            arrays_free(&x);
        }
}
