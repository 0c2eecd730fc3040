// SPDX-License-Identifier: Apache-2.0
// Attention against textbook loops in double, at lengths of one causal block and of several; scores that no product may
// use begin as NaN.
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { SEQUENCES = 2, HEADS = 2, HEAD_WIDTH = 3, WIDTH = HEADS * HEAD_WIDTH };

// The vectors q, k and v of a position and head, or their gradients.
struct vectors {
    double of[3][HEAD_WIDTH];
};

static size_t place(size_t length, size_t s, size_t position, size_t parts, size_t part, size_t head)
{
    return ((s * length + position) * parts + part) * WIDTH + head * HEAD_WIDTH;
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int j = 0; j < HEAD_WIDTH; j++)
        sum += a[j] * b[j];
    return sum;
}

// p[u] = the softmax of position t over the positions 0 .. t.
static void softmax_of(const struct vectors *x, size_t t, double *p)
{
    double sum = 0;
    for (size_t u = 0; u <= t; u++)
        sum += p[u] = exp(dot(x[t].of[0], x[u].of[1]) / sqrt(HEAD_WIDTH));
    for (size_t u = 0; u <= t; u++)
        p[u] /= sum;
}

// Of one head of one sequence: out and, for its gradient g, the gradients d of q, k and v.
static void attend(const struct vectors *x, const double (*g)[HEAD_WIDTH], size_t length, double (*out)[HEAD_WIDTH],
                   struct vectors *d)
{
    double *p = malloc(length * sizeof *p);
    for (size_t t = 0; t < length; t++)
        d[t] = (struct vectors){0};
    for (size_t t = 0; t < length; t++) {
        double common = 0;
        softmax_of(x, t, p);
        for (int j = 0; j < HEAD_WIDTH; j++)
            out[t][j] = 0;
        for (size_t u = 0; u <= t; u++) {
            common += p[u] * dot(g[t], x[u].of[2]);
            for (int j = 0; j < HEAD_WIDTH; j++) {
                out[t][j] += p[u] * x[u].of[2][j];
                d[u].of[2][j] += p[u] * g[t][j];
            }
        }
        for (size_t u = 0; u <= t; u++) {
            double ds = p[u] * (dot(g[t], x[u].of[2]) - common) / sqrt(HEAD_WIDTH);
            for (int j = 0; j < HEAD_WIDTH; j++) {
                d[t].of[0][j] += ds * x[u].of[1][j];
                d[u].of[1][j] += ds * x[t].of[0][j];
            }
        }
    }
    free(p);
}

static float *random_rows(size_t count, uint64_t key)
{
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = random_normal(random_at(key, i));
    return values;
}

static void expect_near(float found, double expected, const char *what, size_t length, size_t position)
{
    cr_assert(fabs((double)found - expected) <= 2e-5, "%s at position %zu of %zu: %g, not %g", what, position, length,
              (double)found, expected);
}

static void compare_head(size_t length, size_t s, size_t head, const float *qkv, const float *g, const float *out,
                         const float *d)
{
    struct vectors *x = malloc(length * sizeof *x), *dx = malloc(length * sizeof *dx);
    double(*dout)[HEAD_WIDTH] = malloc(length * sizeof *dout), (*expected)[HEAD_WIDTH] = malloc(length * sizeof *dout);
    for (size_t t = 0; t < length; t++)
        for (int j = 0; j < HEAD_WIDTH; j++) {
            for (size_t part = 0; part < 3; part++)
                x[t].of[part][j] = (double)qkv[place(length, s, t, 3, part, head) + (size_t)j];
            dout[t][j] = (double)g[place(length, s, t, 1, 0, head) + (size_t)j];
        }
    attend(x, (const double(*)[HEAD_WIDTH])dout, length, expected, dx);
    for (size_t t = 0; t < length; t++)
        for (int j = 0; j < HEAD_WIDTH; j++) {
            expect_near(out[place(length, s, t, 1, 0, head) + (size_t)j], expected[t][j], "out", length, t);
            for (size_t part = 0; part < 3; part++)
                expect_near(d[place(length, s, t, 3, part, head) + (size_t)j], dx[t].of[part][j], "a gradient", length,
                            t);
        }
    free(x);
    free(dx);
    free(dout);
    free(expected);
}

Test(gpt_attention, every_length_has_the_values_and_gradients_of_textbook_loops)
{
    const size_t lengths[] = {1, 5, CAUSAL_ROWS, CAUSAL_ROWS + 1, 2 * CAUSAL_ROWS + 70};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t length = lengths[i], rows = SEQUENCES * length;
        const struct attention_shape shape = {SEQUENCES, length, WIDTH, HEADS, DTYPE_FP32, length * length};
        size_t scores_bytes = length * length * sizeof(float);
        float *qkv = random_rows(rows * 3 * WIDTH, 1), *g = random_rows(rows * WIDTH, 2);
        float *out = malloc(rows * WIDTH * sizeof *out), *d = malloc(rows * 3 * WIDTH * sizeof *d);
        float *scores = malloc(scores_bytes), *scores_gradient = malloc(scores_bytes);
        memset(scores, 0xff, scores_bytes);
        memset(scores_gradient, 0xff, scores_bytes);
        attention_forward(&shape, qkv, out, scores, scores_gradient);
        memset(scores, 0xff, scores_bytes);
        memset(scores_gradient, 0xff, scores_bytes);
        attention_backward(&shape, qkv, g, d, scores, scores_gradient);
        for (size_t s = 0; s < SEQUENCES; s++)
            for (size_t head = 0; head < HEADS; head++)
                compare_head(length, s, head, qkv, g, out, d);
        free(qkv);
        free(g);
        free(out);
        free(d);
        free(scores);
        free(scores_gradient);
    }
}
