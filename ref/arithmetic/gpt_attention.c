// SPDX-License-Identifier: Apache-2.0
// Attention as matrix products and softmaxes over whole heads. An accelerator takes many heads of many sequences in
// each launch; the host takes one at a time, whose scores stay in its cache.
#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/isa.h"

#include <assert.h>
#include <math.h>

enum { SCORES_MAX = 1 << 26 };

size_t attention_scores_most(const struct attention_shape *shape)
{
    size_t head = shape->sequence_length * shape->sequence_length;
    size_t all = shape->sequence_count * shape->head_count * head, most = SCORES_MAX > head ? SCORES_MAX : head;
    return all < most ? all : most;
}

// How many heads of a sequence, and how many sequences if those are all, have their scores side by side.
struct share {
    size_t head_count, sequence_count;
};

// Returns the size of the smallest number of equal parts of at most `most`.
static size_t evenly(size_t count, size_t most)
{
    size_t parts = (count + most - 1) / most;
    return (count + parts - 1) / parts;
}

static struct share share_of(const struct attention_shape *shape)
{
    size_t fit = shape->scores_count / (shape->sequence_length * shape->sequence_length);
    if (fit < shape->head_count)
        return (struct share){evenly(shape->head_count, fit), 1};
    return (struct share){shape->head_count, evenly(shape->sequence_count, fit / shape->head_count)};
}

// Heads that are computed together. Operands that are smaller than floats cannot take the place of the floats that they
// are made of: the softmax p then lies in the first half of the scores' gradient and the latter in the second half, and
// the gradient of p where the scores were.
struct heads {
    size_t first_sequence, sequence_count, first_head, head_count;
    size_t length, width, head_width, operand_bytes;
    enum dtype dtype;
    float *scores, *p_gradient;
    void *p, *scores_gradient;
};

static struct heads heads_from(const struct attention_shape *shape, size_t sequence, size_t head, float *scores,
                               float *scores_gradient)
{
    struct share share = accelerator_of(scores) ? share_of(shape) : (struct share){1, 1};
    size_t heads_left = shape->head_count - head, sequences_left = shape->sequence_count - sequence;
    struct heads h = {.first_sequence = sequence,
                      .sequence_count = share.sequence_count < sequences_left ? share.sequence_count : sequences_left,
                      .first_head = head,
                      .head_count = share.head_count < heads_left ? share.head_count : heads_left,
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
        h.scores_gradient =
            (char *)scores_gradient + h.sequence_count * h.head_count * h.length * h.length * h.operand_bytes;
    }
    return h;
}

// One matrix for each head.
struct head_matrix {
    char *data;                 // of the first head
    size_t stride;              // from one row to the next
    struct matmul_steps steps;  // from one head, and from one sequence, to the next
    size_t bytes;               // of an element
    bool is_operand, is_transposed;
};

static struct head_matrix square(const struct heads *h, void *data, bool is_operand)
{
    size_t count = h->length * h->length, bytes = is_operand ? h->operand_bytes : sizeof(float);
    return (struct head_matrix){data, h->length, {count, h->head_count * count}, bytes, is_operand, false};
}

// The columns of the heads in part `index` of rows that have `parts` of them: 3 for qkv.
static struct head_matrix columns(const struct heads *h, const void *rows, size_t parts, size_t index)
{
    size_t stride = parts * h->width, sequence_step = h->length * stride;
    size_t first = h->first_sequence * sequence_step + index * h->width + h->first_head * h->head_width;
    char *data = (char *)(uintptr_t)rows + first * h->operand_bytes;
    return (struct head_matrix){data, stride, {h->head_width, sequence_step}, h->operand_bytes, true, false};
}

static struct head_matrix from(struct head_matrix matrix, size_t row, size_t column)
{
    matrix.data += (row * matrix.stride + column) * matrix.bytes;
    return matrix;
}

static struct head_matrix transposed(struct head_matrix matrix)
{
    matrix.is_transposed = true;
    return matrix;
}

// c (m x n) = alpha x op(a) op(b) for each head, with k as the shared dimension.
static void multiply(const struct heads *h, size_t m, size_t n, size_t k, float alpha, struct head_matrix a,
                     struct head_matrix b, struct head_matrix c)
{
    matmul_many(&(struct matmul_batch){.group_count = h->sequence_count,
                                       .count = h->head_count,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .alpha = alpha,
                                       .dtype = h->dtype,
                                       .a = {a.data, a.stride, a.is_transposed},
                                       .b = {b.data, b.stride, b.is_transposed},
                                       .c = c.data,
                                       .c_is_operand = c.is_operand,
                                       .c_stride = c.stride,
                                       .a_steps = a.steps,
                                       .b_steps = b.steps,
                                       .c_steps = c.steps});
}

// scores = alpha x a b^T, block by block of a's rows.
static void multiply_scores(const struct heads *h, float alpha, struct head_matrix a, struct head_matrix b,
                            struct head_matrix scores)
{
    for (size_t row = 0; row < h->length; row += CAUSAL_ROWS) {
        size_t end = causal_end(row, h->length);
        multiply(h, end - row, end, h->head_width, alpha, from(a, row, 0), transposed(b), from(scores, row, 0));
    }
}

// out = alpha x scores values: each block of rows needs the values up to its end.
static void multiply_values(const struct heads *h, float alpha, struct head_matrix scores, struct head_matrix values,
                            struct head_matrix out)
{
    for (size_t row = 0; row < h->length; row += CAUSAL_ROWS) {
        size_t end = causal_end(row, h->length);
        multiply(h, end - row, h->head_width, end, alpha, from(scores, row, 0), values, from(out, row, 0));
    }
}

// out = alpha x scores^T values: each block of columns has scores from its first row on.
static void multiply_back(const struct heads *h, float alpha, struct head_matrix scores, struct head_matrix values,
                          struct head_matrix out)
{
    for (size_t row = 0; row < h->length; row += CAUSAL_ROWS)
        multiply(h, causal_end(row, h->length) - row, h->head_width, h->length - row, alpha,
                 transposed(from(scores, row, row)), from(values, row, 0), from(out, row, 0));
}

// p = softmax(q k^T / sqrt(head_width)).
static void softmax_scores(const struct heads *h, const void *qkv)
{
    multiply_scores(h, 1.0f / sqrtf((float)h->head_width), columns(h, qkv, 3, 0), columns(h, qkv, 3, 1),
                    square(h, h->scores, false));
    isa_kernels_at(h->scores)->softmax_causal(h->sequence_count * h->head_count, h->length, h->scores, h->dtype, h->p);
}

static void heads_forward(const struct heads *h, const void *qkv, void *out)
{
    softmax_scores(h, qkv);
    multiply_values(h, 1.0f, square(h, h->p, true), columns(h, qkv, 3, 2), columns(h, out, 1, 0));
}

static void heads_backward(const struct heads *h, const void *qkv, const void *out_gradient, void *qkv_gradient)
{
    float scale = 1.0f / sqrtf((float)h->head_width);
    struct head_matrix dout = columns(h, out_gradient, 1, 0), p = square(h, h->p, true);
    struct head_matrix ds = square(h, h->scores_gradient, true);
    softmax_scores(h, qkv);
    multiply_back(h, 1.0f, p, dout, columns(h, qkv_gradient, 3, 2));
    multiply_scores(h, 1.0f, dout, columns(h, qkv, 3, 2), square(h, h->p_gradient, false));
    isa_kernels_at(h->scores)->softmax_causal_backward(h->sequence_count * h->head_count, h->length, h->p,
                                                       h->p_gradient, h->dtype, h->scores_gradient);
    multiply_values(h, scale, ds, columns(h, qkv, 3, 1), columns(h, qkv_gradient, 3, 0));
    multiply_back(h, scale, ds, columns(h, qkv, 3, 0), columns(h, qkv_gradient, 3, 1));
}

void attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *scores,
                       float *scores_gradient)
{
    assert(shape->head_count > 0 && shape->width % shape->head_count == 0);
    assert(shape->scores_count >= shape->sequence_length * shape->sequence_length);
    struct heads h;
    for (size_t s = 0; s < shape->sequence_count; s += h.sequence_count)
        for (size_t head = 0; head < shape->head_count; head += h.head_count) {
            h = heads_from(shape, s, head, scores, scores_gradient);
            heads_forward(&h, qkv, out);
        }
}

void attention_backward(const struct attention_shape *shape, const void *qkv, const void *out_gradient,
                        void *qkv_gradient, float *scores, float *scores_gradient)
{
    assert(shape->head_count > 0 && shape->width % shape->head_count == 0);
    assert(shape->scores_count >= shape->sequence_length * shape->sequence_length);
    struct heads h;
    for (size_t s = 0; s < shape->sequence_count; s += h.sequence_count)
        for (size_t head = 0; head < shape->head_count; head += h.head_count) {
            h = heads_from(shape, s, head, scores, scores_gradient);
            heads_backward(&h, qkv, out_gradient, qkv_gradient);
        }
}
