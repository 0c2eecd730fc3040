// SPDX-License-Identifier: Apache-2.0
// How far attention in 16 bits may be from the scalar build's where its sums have another order, as on tensor cores.
// An element of out is a sum of p_j v_j, each p_j an operand: its two roundings are at most 2 unit p_j apart, so the
// sums are at most 2 unit sum |p_j||v_j| apart. Sums of floats add less: of n terms, n times ATTENTION_SUM of their
// absolute values. The gradients' sums are bounded likewise, and the statistics by the scores'.
#pragma once

#include "ref/arithmetic/gpt_math.h"

#include <math.h>
#include <stdlib.h>

struct attention_bounds {
    size_t length, width, head_width;
    double unit, least;              // half the distance of two operands above 1; the least distance of two
    double *out, *gradient, *stats;  // as attention's arrays, before the result is rounded to an operand
};

// Of both places together: 2^-24 where sums are rounded, and less than 3 x 2^-24 where tensor cores truncate them.
#define ATTENTION_SUM 0x1p-22

// The arrays of a call, as floats, at a head's first row.
struct attention_vectors {
    const float *qkv, *out_gradient, *out, *stats;
};

// Adds to the bounds, which begin at the head's first row, the terms of row i.
static inline void attention_bound_row(const struct attention_bounds *b, const struct attention_vectors *of, size_t i)
{
    const size_t n = b->head_width, across = 3 * b->width;
    const float *q = of->qkv + i * across, *gradient = of->out_gradient + i * b->width, *out = of->out + i * b->width;
    const double scale = 1 / sqrt((double)n), dots = ((double)n + 2) * ATTENTION_SUM, top = (double)of->stats[2 * i];
    const double sums = ((double)b->length + 8) * ATTENTION_SUM, inverse = (double)of->stats[2 * i + 1];
    double row_sum = 0, furthest = 0, of_out[n];
    for (size_t c = 0; c < n; c++) {
        row_sum += (double)gradient[c] * (double)out[c];
        of_out[c] = 0;
    }
    for (size_t j = 0; j <= i; j++) {
        const float *k = of->qkv + j * across + b->width, *v = k + b->width;
        double *key_bound = b->gradient + j * across + b->width, s = 0, s_terms = 0, g = 0, g_terms = 0;
        for (size_t c = 0; c < n; c++) {
            double qk = (double)q[c] * (double)k[c], gv = (double)gradient[c] * (double)v[c];
            s += qk;
            g += gv;
            s_terms += fabs(qk);
            g_terms += fabs(gv);
        }
        // A score's error is a factor of p. In both places p and ds become operands, of which each is rounded.
        double p = exp(s * scale - top) * inverse, score = dots * scale * s_terms, factor = 2 * b->unit + sums + score;
        double p_error = p * factor + b->least;
        double ds_error = scale * (fabs(p * (g - row_sum)) * factor + p * dots * g_terms + b->least);
        furthest = fmax(furthest, score);
        for (size_t c = 0; c < n; c++) {
            of_out[c] += p * fabs((double)v[c]);
            b->out[i * b->width + c] += p_error * fabs((double)v[c]);
            b->gradient[i * across + c] += ds_error * fabs((double)k[c]);
            key_bound[c] += ds_error * fabs((double)q[c]);
            key_bound[b->width + c] += p_error * fabs((double)gradient[c]);
        }
    }
    for (size_t c = 0; c < n; c++)
        b->out[i * b->width + c] += 2 * furthest * of_out[c];  // the largest score, and what divides
    b->stats[2 * i] = furthest;
    b->stats[2 * i + 1] = inverse * (2 * furthest + sums);
}

// The bounds' arrays are the caller's.
static inline struct attention_bounds attention_bounds(const struct attention_shape *shape,
                                                       const struct attention_vectors *all)
{
    const bool is_bf16 = shape->dtype == DTYPE_BF16;
    const size_t length = shape->sequence_length, heads = shape->head_count, count = shape->sequence_count * heads;
    struct attention_bounds b = {length,
                                 shape->width,
                                 shape->width / heads,
                                 is_bf16 ? 0x1p-9 : 0x1p-12,
                                 is_bf16 ? 0 : 0x1p-24,
                                 calloc(count * length * shape->width / heads, sizeof(double)),
                                 calloc(3 * count * length * shape->width / heads, sizeof(double)),
                                 calloc(2 * count * length, sizeof(double))};
    for (size_t head = 0; head < count; head++) {
        size_t at = head / heads * length * b.width, column = head % heads * b.head_width, stat = 2 * head * length;
        const struct attention_vectors of = {all->qkv + 3 * at + column, all->out_gradient + at + column,
                                             all->out + at + column, all->stats + stat};
        struct attention_bounds here = b;
        here.out += at + column;
        here.gradient += 3 * at + column;
        here.stats += stat;
        for (size_t i = 0; i < length; i++)
            attention_bound_row(&here, &of, i);
    }
    return b;
}
