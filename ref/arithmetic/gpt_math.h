// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPT, forward and backward. Values are fp32, except for operands. Matrices are
// row-major; pointers need no more than the alignment of float. The shape alone decides the order of every sum, so the
// bits of a result depend neither on the addresses of the operands nor on the width of the processor's vectors: a sum
// along a row has ROW_LANES partial sums, and a sum over rows has one for each SUM_ROWS rows, so that threads can share
// either. NaN and infinities propagate, so that an overflow shows in the gradients. Buffers of one call do not overlap
// unless a comment allows it. All arrays of a call lie in one processor's memory (accelerator.h), except tokens and
// targets, which always lie in host memory.
#pragma once

#include "ref/arithmetic/dtype_element.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Element j of a sum along a row belongs to partial sum j mod ROW_LANES; these are then folded by halves.
enum { ROW_LANES = 32 };

// A sum over rows is the sum of blocks of SUM_ROWS rows: rows ascending in a block, then blocks ascending.
enum { SUM_ROWS = 64 };

// A model in 16 bits multiplies matrices of values that are rounded to its dtype, its operands, and sums the products
// in fp32 (matmul.h). A product's result is an operand, too, unless it is a parameter's gradient or is added to the
// residual stream. With DTYPE_FP32 nothing is rounded.

// Returns the bytes of an operand's element at this address.
size_t operand_bytes(enum dtype dtype, const void *address);

// out = in, as an operand; out may be in where an operand's elements have 4 bytes.
void operand_round(enum dtype dtype, size_t count, const float *in, void *out);

// Threads that share a call of this header made on the calling thread, in host memory; until then, as many as OpenMP
// likes. No bits depend on it.
void math_set_threads(int count);

// Vectors of parameters (weight, bias) are operands, too. out[r][j] = bias[j], an operand.
void bias_rows(size_t row_count, size_t width, enum dtype dtype, const void *bias, void *out);
// out[r][j] = in[r][j] + bias[j].
void bias_add(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *bias, float *out);

// Where a sum over rows goes: rounded to dtype, or added to what is there, at the latest when sums_finish is called for
// the same memory, on the same thread. Without a place, or without data, it is left in the caller's floats; else these
// hold anything afterwards.
struct sum_place {
    enum dtype dtype;
    bool add;
    void *data;
};

// Writes the sums of this thread that wait for their places.
void sums_finish(const void *memory);

// The sum of in[r][j], an operand, over r: a sum over rows. sum: width floats.
void rows_sum(size_t row_count, size_t width, enum dtype dtype, const void *in, float *sum,
              const struct sum_place *place);

// Statistics: stats[2r] = mean of the row, stats[2r + 1] = 1 / sqrt(variance + 1e-5).
// out = (in - mean) x rstd x weight + bias, an operand; layernorm_forward makes the statistics first.
void layernorm_forward(size_t row_count, size_t width, const float *in, float *stats, enum dtype dtype,
                       const void *weight, const void *bias, void *out);
void layernorm_apply(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                     const void *weight, const void *bias, void *out);
// layernorm_forward, and what products are added to: bias_rows and bias_add of `in`, each unless its out is null. One
// launch of a GPU, where all have row_count rows.
struct norm_biases {
    size_t row_count, width;  // of bias_rows
    const void *bias_of_rows, *bias_of_in;
    void *rows;
    float *sum;
};
void layernorm_biases(size_t row_count, size_t width, const float *in, float *stats, enum dtype dtype,
                      const void *weight, const void *bias, void *out, const struct norm_biases *biases);
// The arrays of layernorm_apply.
struct norm_rows {
    const float *in, *stats;
    const void *weight, *bias;
    void *out;
};
// Adds the input's gradient to in_gradient; out_gradient is an operand. The gradients of weight and bias are sums over
// rows, of which `sums` has 2 x width floats and places, if there are any, two.
void layernorm_backward(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                        const void *weight, const void *out_gradient, float *in_gradient, float *sums,
                        const struct sum_place *places);
// The arrays of layernorm_backward. is_first: there is no gradient of the input yet, as if it were 0.
struct norm_back {
    const float *in, *stats;
    const void *weight, *out_gradient;
    bool is_first;
    struct sum_place places[2];
};
// stream_backward makes these of a residual stream's gradient and with it, in this order, each unless its first pointer
// is null.
struct stream_parts {
    struct norm_back norm;   // adds to the gradient
    void *rounded;           // the gradient as an operand, which may be the gradient itself in fp32,
    struct sum_place place;  // and its sum over rows, if there is a place
    struct norm_rows again;  // layernorm_apply
    const void *other;       // rows_sum of another operand with as many rows
    size_t other_width;
    struct sum_place other_place;
};
// One launch of a GPU. sums: floats of the widest sum over rows, of which a norm's has 2 x width.
void stream_backward(size_t row_count, size_t width, enum dtype dtype, float *gradient, float *sums,
                     const struct stream_parts *parts);

// GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), of x = in + bias. in and out are
// operands.
void gelu_forward(size_t row_count, size_t width, const void *in, enum dtype dtype, const void *bias, void *out);
// Recomputes out, and writes gradient, an operand, x the slope at x to in_gradient, an operand, which may be gradient.
// sum: width floats for the sum of in_gradient over rows; null: it is not made.
void gelu_backward(size_t row_count, size_t width, const void *in, const void *gradient, enum dtype dtype,
                   const void *bias, void *out, void *in_gradient, float *sum, const struct sum_place *place);

// Causal attention, whose scores exist in blocks of ATTENTION_BLOCK rows and keys alone (FlashAttention; the definition
// of its bits is in gpt_attention_kernel.h). qkv has rows of query, key and value (3 x width), sequence after sequence;
// out has rows of width. These and their gradients are operands, and so are the softmax and the gradient of the scores
// in their products. Forward writes stats, attention_stats_count floats, which backward reads: for each sequence, head
// and row the largest score and 1 / the sum of the exponentials relative to it. scratch has attention_scratch_count
// floats. head_count divides width, and a group's heads the heads. Out and every gradient share no memory with anything
// else.
enum { ATTENTION_BLOCK = 64 };
// Where the values of a row lie, in elements, only in host memory: the distance of rows of out and of qkv, and where
// the first key and the first value lie behind the first query. Grouped-query attention (arXiv 2305.13245) "divides
// query heads into G groups, each of which shares a single key head and value head": `group` consecutive heads share
// one, and the gradients of its keys and values are chains over the group's heads, ascending.
struct attention_rows {
    size_t out_stride, qkv_stride, key_at, value_at, group;
};
struct attention_shape {
    size_t sequence_count;
    size_t sequence_length;
    size_t width;
    size_t head_count;
    enum dtype dtype;
    const struct attention_rows *rows;  // null: rows of width and 3 x width, and every head has its own keys and values
};
static inline struct attention_rows attention_rows_of(const struct attention_shape *shape)
{
    size_t width = shape->width;
    return shape->rows ? *shape->rows : (struct attention_rows){width, 3 * width, width, 2 * width, 1};
}
size_t attention_stats_count(const struct attention_shape *shape);
size_t attention_scratch_count(const struct attention_shape *shape);
void attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *stats, float *scratch);
void attention_backward(const struct attention_shape *shape, const void *qkv, const void *out, float *stats,
                        const void *out_gradient, void *qkv_gradient, float *scratch);

// The tokens of a micro-batch, [sequence_count][length + 1] in host memory. A row r is a position of a sequence, r /
// length and r mod length; its target is the next token.
struct token_rows {
    const uint16_t *tokens;
    size_t sequence_count, length;
};

// The index of a row's token; its target follows it.
DTYPE_INLINE size_t token_index(const struct token_rows *rows, size_t r)
{
    return r / rows->length * (rows->length + 1) + r % rows->length;
}

// out[r] = token_weight[token of r] + position_weight[position of r] (rows of width; the weights have the format of
// dtype in either memory).
void embedding_forward(const struct token_rows *rows, size_t width, enum dtype dtype, const void *token_weight,
                       const void *position_weight, float *out);
// The sums of in[r] over the rows of each of `token_count` tokens from first_token on, and of each position, rows
// ascending, go to places[0] and places[1]; without data there, they are not made. sums: floats for either table, which
// hold anything afterwards; null where both places are fp32 and do not add.
void embedding_backward(const struct token_rows *rows, size_t width, size_t first_token, size_t token_count,
                        const float *in, float *sums, const struct sum_place *places);

// Of rows of logits, operands, each `stride` elements after the one before: stats[2r] = the largest, stats[2r + 1] = 1
// / the sum of the exponentials relative to it. Returns the sum over the rows of -log(softmax[target of r]). With a
// scale other than 0 the rows are replaced as crossentropy_backward does it, while they are at hand.
double crossentropy_forward(const struct token_rows *rows, size_t width, size_t stride, void *logits, float *stats,
                            float scale, enum dtype dtype);
// Replaces each row with scale x (softmax[j] - (j == target of r)), an operand.
void crossentropy_backward(const struct token_rows *rows, size_t width, size_t stride, const float *stats, float scale,
                           enum dtype dtype, void *logits);

// Returns e^x within 2 ulp for |x| <= 87, the value at the nearer end for larger |x|, and NaN for NaN. Uses plain IEEE
// and integer operations, so that loops vectorise and an element has the same bits at every position. Method: Cody and
// Waite's reduction by ln 2 in two parts, Cephes' polynomial, and 2^n assembled from its bits.
DTYPE_INLINE float exp_within(float x)
{
    // Clamps the bits, because the compiler turns a choice between integers into code without branches.
    const int32_t limit = 0x42ae0000, infinity = 0x7f800000;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t magnitude = (int32_t)(bits & 0x7fffffff);
    int32_t within = magnitude > limit ? limit : magnitude;
    within = magnitude > infinity ? magnitude : within;
    bits = (bits & 0x80000000) | (uint32_t)within;
    memcpy(&x, &bits, sizeof x);
    // Adding 1.5 x 2^23 rounds to an integer n, which the low bits of the sum hold.
    float shifted = x * 1.44269504f + 12582912.0f;
    float n = shifted - 12582912.0f;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    float y = (p * (r * r) + r) + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127u) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return y * power;
}

// 0.5 (1 + tanh(u)) is the logistic function of 2u, so GELU is x / (1 + exp(-2u)) with 2u = x (GELU_A + GELU_B x^2),
// which needs no tanh and avoids the cancellation where tanh is near -1.
#define GELU_A 1.5957691216f
#define GELU_B 0.0713548163f

struct gelu {
    float value, slope;
};

DTYPE_INLINE float gelu_value(float x)
{
    return x / (1.0f + exp_within(-x * (GELU_A + GELU_B * (x * x))));
}

DTYPE_INLINE struct gelu gelu_with_slope(float x)
{
    float square = x * x;
    float e = exp_within(-x * (GELU_A + GELU_B * square));
    float logistic = 1.0f / (1.0f + e);
    struct gelu gelu;
    gelu.value = x / (1.0f + e);
    gelu.slope = logistic + x * logistic * (e * logistic) * (GELU_A + 3.0f * GELU_B * square);
    return gelu;
}
