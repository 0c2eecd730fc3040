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

// Some heads of one sequence. Operands that are smaller than floats cannot take the place of the floats that they are
// made of: the softmax p then lies in the first half of the scores' gradient and the latter in the second half, and the
// gradient of p where the scores were.
struct heads {
    size_t first, count, length, width, head_width, operand_bytes;
    enum dtype dtype;
    float *scores, *p_gradient;
    void *p, *scores_gradient;
};

// The heads that are computed together with head `first`; their number is at least 1.
static struct heads heads_from(const struct attention_shape *shape, size_t first, float *scores, float *scores_gradient)
{
    size_t most = accelerator_of(scores) ? heads_at_once(shape) : 1, left = shape->head_count - first;
    struct heads h = {.first = first,
                      .count = left < most ? left : most,
                      .length = shape->sequence_length,
                      .width = shape->width,
                      .head_width = shape->width / shape->head_count,
                      .operand_bytes = operand_bytes(shape->dtype, scores),
                      .dtype = shape->dtype,
                      .scores = scores,
                      .p_gradient = scores_gradient,
                      .p = scores,
                      .scores_gradient = scores_gradient};
    if (h.operand_bytes < sizeof(float)) {
        h.p = scores_gradient;
        h.p_gradient = scores;
        h.scores_gradient = (char *)scores_gradient + h.count * h.length * h.length * h.operand_bytes;
    }
    return h;
}

// One matrix for each head.
struct head_matrix {
    void *data;     // of the first head
    size_t stride;  // from one row to the next
    size_t step;    // from one head to the next
    bool is_operand, is_transposed;
};

static struct head_matrix square(const struct heads *h, void *data, bool is_operand)
{
    return (struct head_matrix){data, h->length, h->length * h->length, is_operand, false};
}

// The columns of the heads in part `index` of rows that have `parts` of them: 3 for qkv.
static struct head_matrix columns(const struct heads *h, const void *rows, size_t parts, size_t index)
{
    size_t column = index * h->width + h->first * h->head_width;
    char *data = (char *)(uintptr_t)rows + column * h->operand_bytes;
    return (struct head_matrix){data, parts * h->width, h->head_width, true, false};
}

static struct head_matrix transposed(struct head_matrix matrix)
{
    matrix.is_transposed = true;
    return matrix;
}

// c = alpha x op(a) op(b) for each head; `shared` is the inner dimension.
static void multiply(const struct heads *h, size_t column_count, size_t shared, float alpha, struct head_matrix a,
                     struct head_matrix b, struct head_matrix c)
{
    matmul_many(&(struct matmul_batch){.count = h->count,
                                       .m = h->length,
                                       .n = column_count,
                                       .k = shared,
                                       .alpha = alpha,
                                       .dtype = h->dtype,
                                       .a = {a.data, a.stride, a.is_transposed},
                                       .b = {b.data, b.stride, b.is_transposed},
                                       .a_step = a.step,
                                       .b_step = b.step,
                                       .c = c.data,
                                       .c_is_operand = c.is_operand,
                                       .c_stride = c.stride,
                                       .c_step = c.step});
}

// p = softmax(q k^T / sqrt(head_width)).
static void softmax_scores(const struct heads *h, const void *qkv)
{
    multiply(h, h->length, h->head_width, 1.0f / sqrtf((float)h->head_width), columns(h, qkv, 3, 0),
             transposed(columns(h, qkv, 3, 1)), square(h, h->scores, false));
    isa_kernels_at(h->scores)->softmax_causal(h->count, h->length, h->scores, h->dtype, h->p);
}

// qkv and out: the rows of one sequence.
static void heads_forward(const struct heads *h, const void *qkv, void *out)
{
    softmax_scores(h, qkv);
    multiply(h, h->head_width, h->length, 1.0f, square(h, h->p, true), columns(h, qkv, 3, 2), columns(h, out, 1, 0));
}

static void heads_backward(const struct heads *h, const void *qkv, const void *out_gradient, void *qkv_gradient)
{
    float scale = 1.0f / sqrtf((float)h->head_width);
    struct head_matrix q = columns(h, qkv, 3, 0), k = columns(h, qkv, 3, 1), v = columns(h, qkv, 3, 2);
    struct head_matrix dq = columns(h, qkv_gradient, 3, 0), dk = columns(h, qkv_gradient, 3, 1);
    struct head_matrix dv = columns(h, qkv_gradient, 3, 2), dout = columns(h, out_gradient, 1, 0);
    struct head_matrix p = square(h, h->p, true), ds = square(h, h->scores_gradient, true);
    softmax_scores(h, qkv);
    multiply(h, h->head_width, h->length, 1.0f, transposed(p), dout, dv);
    multiply(h, h->length, h->head_width, 1.0f, dout, transposed(v), square(h, h->p_gradient, false));
    isa_kernels_at(h->scores)->softmax_causal_backward(h->count, h->length, h->p, h->p_gradient, h->dtype,
                                                       h->scores_gradient);
    multiply(h, h->head_width, h->length, scale, ds, k, dq);
    multiply(h, h->head_width, h->length, scale, transposed(ds), q, dk);
}

// The rows of a sequence in an operand with so many columns.
static void *rows_of(const struct attention_shape *shape, const void *operand, size_t sequence, size_t column_count)
{
    size_t element = sequence * shape->sequence_length * column_count;
    return (char *)(uintptr_t)operand + element * operand_bytes(shape->dtype, operand);
}

void attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *scores,
                       float *scores_gradient)
{
    assert(shape->head_count > 0 && shape->width % shape->head_count == 0);
    for (size_t s = 0; s < shape->sequence_count; s++) {
        struct heads h;
        for (size_t head = 0; head < shape->head_count; head += h.count) {
            h = heads_from(shape, head, scores, scores_gradient);
            heads_forward(&h, rows_of(shape, qkv, s, 3 * shape->width), rows_of(shape, out, s, shape->width));
        }
    }
}

void attention_backward(const struct attention_shape *shape, const void *qkv, const void *out_gradient,
                        void *qkv_gradient, float *scores, float *scores_gradient)
{
    assert(shape->head_count > 0 && shape->width % shape->head_count == 0);
    for (size_t s = 0; s < shape->sequence_count; s++) {
        struct heads h;
        for (size_t head = 0; head < shape->head_count; head += h.count) {
            h = heads_from(shape, head, scores, scores_gradient);
            heads_backward(&h, rows_of(shape, qkv, s, 3 * shape->width), rows_of(shape, out_gradient, s, shape->width),
                           rows_of(shape, qkv_gradient, s, 3 * shape->width));
        }
    }
}
