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

bool attention_is_split(const void *address)
{
    return accelerator_of(address) != NULL;
}

// Heads of sequences that are computed together: the matrices [first, first + count), matrix i being of head
// i / sequence_count and sequence i mod sequence_count. Operands that are smaller than floats cannot take the place of
// the floats that they are made of: the softmax p then lies in the first half of the scores' gradient and the latter in
// the second half, and the gradient of p where the scores were.
struct heads {
    const struct attention_shape *shape;
    size_t first, count;
    size_t length, head_width, operand_bytes;
    bool split;
    float *scores, *p_gradient;
    void *p, *scores_gradient;
};

// Returns the size of the smallest number of equal parts of at most `most`.
static size_t evenly(size_t count, size_t most)
{
    size_t parts = (count + most - 1) / most;
    return (count + parts - 1) / parts;
}

static struct heads heads_from(const struct attention_shape *shape, const struct attention_scratch *scratch,
                               size_t first)
{
    size_t length = shape->sequence_length, all = shape->sequence_count * shape->head_count, left = all - first;
    assert(shape->width % shape->head_count == 0 && scratch->scores_count >= length * length);
    bool split = attention_is_split(scratch->scores);
    size_t most = split ? evenly(all, scratch->scores_count / (length * length)) : 1;
    struct heads h = {.shape = shape,
                      .first = first,
                      .count = left < most ? left : most,
                      .length = length,
                      .head_width = shape->width / shape->head_count,
                      .operand_bytes = operand_bytes(shape->dtype, scratch->scores),
                      .split = split,
                      .scores = scratch->scores,
                      .p_gradient = scratch->scores_gradient,
                      .p = scratch->scores,
                      .scores_gradient = scratch->scores_gradient};
    if (h.operand_bytes < sizeof(float)) {
        h.p = scratch->scores_gradient;
        h.p_gradient = scratch->scores;
        h.scores_gradient = (char *)scratch->scores_gradient + h.count * length * length * h.operand_bytes;
    }
    return h;
}

// One matrix for each head.
struct head_matrix {
    char *data;     // of the first head
    size_t stride;  // from one row to the next
    size_t step;    // from one head to the next
    size_t bytes;   // of an element
    bool is_operand, is_transposed;
};

static struct head_matrix square(const struct heads *h, void *data, bool is_operand)
{
    size_t bytes = is_operand ? h->operand_bytes : sizeof(float);
    return (struct head_matrix){data, h->length, h->length * h->length, bytes, is_operand, false};
}

// The heads' matrices, which lie one after the other.
static struct head_matrix apart(const struct heads *h, const void *first)
{
    return (struct head_matrix){(char *)(uintptr_t)first, h->head_width, h->length * h->head_width,
                                h->operand_bytes,         true,          false};
}

// The columns of one head in part `part` of rows that have `parts` of them: 3 for qkv.
static struct head_matrix columns(const struct heads *h, const void *rows, size_t parts, size_t part)
{
    size_t head = h->first / h->shape->sequence_count, sequence = h->first % h->shape->sequence_count;
    size_t stride = parts * h->shape->width, column = part * h->shape->width + head * h->head_width;
    char *data = (char *)(uintptr_t)rows + (sequence * h->length * stride + column) * h->operand_bytes;
    return (struct head_matrix){data, stride, 0, h->operand_bytes, true, false};
}

// The heads' query, key or value.
static struct head_matrix part_of(const struct heads *h, const void *qkv, size_t part)
{
    size_t all = h->shape->sequence_count * h->shape->head_count, matrix = h->length * h->head_width;
    const char *first = (const char *)qkv + (part * all + h->first) * matrix * h->operand_bytes;
    return h->split ? apart(h, first) : columns(h, qkv, 3, part);
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

// Copies the heads' matrices to or from part `part` of rows that have `parts` of them.
static void copy_heads(const struct heads *h, void *matrices, void *rows, size_t parts, size_t part, bool to_rows)
{
    const struct heads_copy copy = {.sequence_count = h->shape->sequence_count,
                                    .length = h->length,
                                    .head_width = h->head_width,
                                    .stride = parts * h->shape->width,
                                    .first = h->first,
                                    .count = h->count,
                                    .element_bytes = h->operand_bytes,
                                    .to_rows = to_rows,
                                    .rows = (char *)rows + part * h->shape->width * h->operand_bytes,
                                    .matrices = matrices};
    isa_kernels_at(matrices)->heads_copy(&copy);
}

void attention_split(const struct attention_shape *shape, const void *rows, void *split)
{
    struct heads all = {.shape = shape,
                        .count = shape->sequence_count * shape->head_count,
                        .length = shape->sequence_length,
                        .head_width = shape->width / shape->head_count,
                        .operand_bytes = operand_bytes(shape->dtype, split)};
    size_t part_bytes = all.count * all.length * all.head_width * all.operand_bytes;
    for (size_t part = 0; part < 3; part++)
        copy_heads(&all, (char *)split + part * part_bytes, (void *)(uintptr_t)rows, 3, part, false);
}

// c (m x n) = alpha x op(a) op(b) for each head, with k as the shared dimension.
static void multiply(const struct heads *h, size_t m, size_t n, size_t k, float alpha, struct head_matrix a,
                     struct head_matrix b, struct head_matrix c)
{
    matmul_many(&(struct matmul_batch){.count = h->count,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .alpha = alpha,
                                       .dtype = h->shape->dtype,
                                       .a = {a.data, a.stride, a.is_transposed},
                                       .b = {b.data, b.stride, b.is_transposed},
                                       .a_step = a.step,
                                       .b_step = b.step,
                                       .c = c.data,
                                       .c_is_operand = c.is_operand,
                                       .c_stride = c.stride,
                                       .c_step = c.step});
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
    multiply_scores(h, 1.0f / sqrtf((float)h->head_width), part_of(h, qkv, 0), part_of(h, qkv, 1),
                    square(h, h->scores, false));
    isa_kernels_at(h->scores)->softmax_causal(h->count, h->length, h->scores, h->shape->dtype, h->p);
}

static void heads_forward(const struct heads *h, const void *qkv, void *out, void *out_apart)
{
    softmax_scores(h, qkv);
    multiply_values(h, 1.0f, square(h, h->p, true), part_of(h, qkv, 2),
                    h->split ? apart(h, out_apart) : columns(h, out, 1, 0));
    if (h->split)
        copy_heads(h, out_apart, out, 1, 0, true);
}

// Split, each part's gradient is computed in the same matrices and then copied to its columns.
static void heads_backward(const struct heads *h, const void *qkv, const void *out_gradient, void *qkv_gradient,
                           const struct attention_scratch *scratch)
{
    const float scale = 1.0f / sqrtf((float)h->head_width);
    struct head_matrix dout = columns(h, out_gradient, 1, 0), gradients[3];
    struct head_matrix p = square(h, h->p, true), ds = square(h, h->scores_gradient, true);
    for (size_t part = 0; part < 3; part++)
        gradients[part] = h->split ? apart(h, scratch->out) : columns(h, qkv_gradient, 3, part);
    if (h->split) {
        copy_heads(h, scratch->out_gradient, (void *)(uintptr_t)out_gradient, 1, 0, false);
        dout = apart(h, scratch->out_gradient);
    }
    softmax_scores(h, qkv);
    multiply_back(h, 1.0f, p, dout, gradients[2]);
    if (h->split)
        copy_heads(h, scratch->out, qkv_gradient, 3, 2, true);
    multiply_scores(h, 1.0f, dout, part_of(h, qkv, 2), square(h, h->p_gradient, false));
    isa_kernels_at(h->scores)->softmax_causal_backward(h->count, h->length, h->p, h->p_gradient, h->shape->dtype,
                                                       h->scores_gradient);
    multiply_values(h, scale, ds, part_of(h, qkv, 1), gradients[0]);
    if (h->split)
        copy_heads(h, scratch->out, qkv_gradient, 3, 0, true);
    multiply_back(h, scale, ds, part_of(h, qkv, 0), gradients[1]);
    if (h->split)
        copy_heads(h, scratch->out, qkv_gradient, 3, 1, true);
}

void attention_forward(const struct attention_shape *shape, const void *qkv, void *out,
                       const struct attention_scratch *scratch)
{
    struct heads h;
    for (size_t first = 0; first < shape->sequence_count * shape->head_count; first += h.count) {
        h = heads_from(shape, scratch, first);
        heads_forward(&h, qkv, out, scratch->out);
    }
}

void attention_backward(const struct attention_shape *shape, const void *qkv, const void *out_gradient,
                        void *qkv_gradient, const struct attention_scratch *scratch)
{
    struct heads h;
    for (size_t first = 0; first < shape->sequence_count * shape->head_count; first += h.count) {
        h = heads_from(shape, scratch, first);
        heads_backward(&h, qkv, out_gradient, qkv_gradient, scratch);
    }
}
