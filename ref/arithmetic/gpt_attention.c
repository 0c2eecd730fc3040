// SPDX-License-Identifier: Apache-2.0
// Attention as matrix products and softmaxes over whole heads. An accelerator takes many heads of a sequence in each
// launch; the host takes one at a time, whose scores stay in its cache.
#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/isa.h"

#include <assert.h>
#include <math.h>

// The scores of the heads that are computed at once: at most 128 MiB, unless one head alone needs more.
enum { SCORES_MAX = 1 << 25 };

// The most heads of a sequence whose scores lie side by side.
static size_t heads_at_once(const struct attention_shape *shape)
{
    size_t fit = SCORES_MAX / (shape->sequence_length * shape->sequence_length);
    return fit == 0 ? 1 : fit < shape->head_count ? fit : shape->head_count;
}

size_t attention_scores_count(const struct attention_shape *shape)
{
    return heads_at_once(shape) * shape->sequence_length * shape->sequence_length;
}

// Some heads of one sequence.
struct heads {
    size_t count, length, head_width;
};

// One matrix for each head: `length` rows of scores, or a head's columns of rows that hold all heads.
struct head_matrix {
    const float *data;  // of the first head
    size_t stride;      // from one row to the next
    size_t step;        // from one head to the next
    bool is_transposed;
};

static struct head_matrix scores_of(const struct heads *heads, const float *scores)
{
    return (struct head_matrix){scores, heads->length, heads->length * heads->length, false};
}

static struct head_matrix columns_of(const struct heads *heads, const float *rows, size_t stride)
{
    return (struct head_matrix){rows, stride, heads->head_width, false};
}

static struct head_matrix transposed(struct head_matrix matrix)
{
    matrix.is_transposed = true;
    return matrix;
}

// c (length x columns) = alpha x op(a) op(b) for each head; `shared` is the inner dimension.
static void multiply(const struct heads *heads, size_t columns, size_t shared, float alpha, struct head_matrix a,
                     struct head_matrix b, struct head_matrix c)
{
    matmul_many(&(struct matmul_batch){.count = heads->count,
                                       .m = heads->length,
                                       .n = columns,
                                       .k = shared,
                                       .alpha = alpha,
                                       .a = {a.data, a.stride, a.is_transposed},
                                       .b = {b.data, b.stride, b.is_transposed},
                                       .a_step = a.step,
                                       .b_step = b.step,
                                       .c = (float *)(uintptr_t)c.data,
                                       .c_stride = c.stride,
                                       .c_step = c.step});
}

// scores = softmax(q k^T / sqrt(head_width)).
static void softmax_scores(const struct heads *heads, struct head_matrix q, struct head_matrix k, float *scores)
{
    multiply(heads, heads->length, heads->head_width, 1.0f / sqrtf((float)heads->head_width), q, transposed(k),
             scores_of(heads, scores));
    isa_kernels_at(scores)->softmax_causal(heads->count, heads->length, scores);
}

// The heads that are computed together with head `first`; their number is at least 1.
static struct heads heads_from(const struct attention_shape *shape, size_t first, const float *scores)
{
    size_t most = accelerator_of(scores) ? heads_at_once(shape) : 1, left = shape->head_count - first;
    return (struct heads){left < most ? left : most, shape->sequence_length, shape->width / shape->head_count};
}

void attention_forward(const struct attention_shape *shape, const float *qkv, float *out, float *scores)
{
    assert(shape->head_count > 0 && shape->width % shape->head_count == 0);
    size_t length = shape->sequence_length, width = shape->width;
    for (size_t s = 0; s < shape->sequence_count; s++, qkv += length * 3 * width, out += length * width) {
        struct heads h;
        for (size_t head = 0; head < shape->head_count; head += h.count) {
            h = heads_from(shape, head, scores);
            size_t at = head * h.head_width;
            struct head_matrix q = columns_of(&h, qkv + at, 3 * width);
            struct head_matrix k = columns_of(&h, qkv + width + at, 3 * width);
            struct head_matrix v = columns_of(&h, qkv + 2 * width + at, 3 * width);
            softmax_scores(&h, q, k, scores);
            multiply(&h, h.head_width, length, 1.0f, scores_of(&h, scores), v, columns_of(&h, out + at, width));
        }
    }
}

// The gradients of some heads: pointers to the first of them in rows of one sequence.
static void heads_backward(const struct heads *h, size_t width, const float *qkv, const float *out_gradient,
                           float *qkv_gradient, float *scores, float *scores_gradient)
{
    size_t length = h->length, head_width = h->head_width;
    float scale = 1.0f / sqrtf((float)head_width);
    struct head_matrix q = columns_of(h, qkv, 3 * width), k = columns_of(h, qkv + width, 3 * width);
    struct head_matrix v = columns_of(h, qkv + 2 * width, 3 * width), dout = columns_of(h, out_gradient, width);
    struct head_matrix dq = columns_of(h, qkv_gradient, 3 * width), dk = columns_of(h, qkv_gradient + width, 3 * width);
    struct head_matrix dv = columns_of(h, qkv_gradient + 2 * width, 3 * width);
    struct head_matrix p = scores_of(h, scores), ds = scores_of(h, scores_gradient);
    softmax_scores(h, q, k, scores);
    multiply(h, head_width, length, 1.0f, transposed(p), dout, dv);
    multiply(h, length, head_width, 1.0f, dout, transposed(v), ds);
    isa_kernels_at(scores)->softmax_causal_backward(h->count, length, scores, scores_gradient);
    multiply(h, head_width, length, scale, ds, k, dq);
    multiply(h, head_width, length, scale, transposed(ds), q, dk);
}

void attention_backward(const struct attention_shape *shape, const float *qkv, const float *out_gradient,
                        float *qkv_gradient, float *scores, float *scores_gradient)
{
    assert(shape->head_count > 0 && shape->width % shape->head_count == 0);
    size_t length = shape->sequence_length, width = shape->width;
    for (size_t row = 0; row < shape->sequence_count * length; row += length) {
        struct heads h;
        for (size_t head = 0; head < shape->head_count; head += h.count) {
            h = heads_from(shape, head, scores);
            size_t at = head * h.head_width;
            heads_backward(&h, width, qkv + row * 3 * width + at, out_gradient + row * width + at,
                           qkv_gradient + row * 3 * width + at, scores, scores_gradient);
        }
    }
}
