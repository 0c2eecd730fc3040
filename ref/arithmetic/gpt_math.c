// SPDX-License-Identifier: Apache-2.0
// The kernels of gpt_kernel.h over the rows of arrays in host memory, shared by threads; those of an accelerator where
// the arrays are in its memory. matmul.c has the products, gpt_attention.c the attention.
#include "ref/arithmetic/gpt_math.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/share_rows.h"

#ifdef _OPENMP
#include <omp.h>
#endif

// Rows of logits whose losses are summed after the threads have found them.
enum { LOSS_ROWS = 256 };

void math_set_threads(int count)
{
#ifdef _OPENMP
    omp_set_num_threads(count > 1 ? count : 1);
#else
    (void)count;
#endif
}

size_t operand_bytes(enum dtype dtype, const void *address)
{
    return accelerator_of(address) ? dtype_bytes(dtype) : sizeof(float);
}

void operand_round(enum dtype dtype, size_t count, const float *in, void *out)
{
    isa_kernels_at(out)->operand_round(dtype, count, in, out);
}

void bias_rows(size_t row_count, size_t width, enum dtype dtype, const void *bias, void *out)
{
    const struct isa_kernels *kernels = isa_kernels_at(out);
    SHARE_ROWS(out, row_count, width, kernels->bias_rows(count, width, dtype, bias, (float *)out + row * width));
}

void bias_add(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *bias, float *out)
{
    const struct isa_kernels *kernels = isa_kernels_at(out);
    SHARE_ROWS(out, row_count, width,
               kernels->bias_add(count, width, in + row * width, dtype, bias, out + row * width));
}

void rows_sum(size_t row_count, size_t width, enum dtype dtype, const void *in, float *sum,
              const struct sum_place *place)
{
    isa_kernels_at(sum)->rows_sum(row_count, width, dtype, in, sum, place);
}

void sums_finish(const void *memory)
{
    const struct isa_kernels *kernels = isa_kernels_at(memory);
    if (kernels->sums_finish)
        kernels->sums_finish();
}

void layernorm_forward(size_t row_count, size_t width, const float *in, float *stats, enum dtype dtype,
                       const void *weight, const void *bias, void *out)
{
    const struct isa_kernels *kernels = isa_kernels_at(out);
    SHARE_ROWS(out, row_count, width,
               kernels->layernorm_forward(count, width, in + row * width, stats + 2 * row, dtype, weight, bias,
                                          (float *)out + row * width));
}

void layernorm_biases(size_t row_count, size_t width, const float *in, float *stats, enum dtype dtype,
                      const void *weight, const void *bias, void *out, const struct norm_biases *b)
{
    const struct isa_kernels *kernels = isa_kernels_at(out);
    if (kernels->layernorm_biases) {
        kernels->layernorm_biases(row_count, width, in, stats, dtype, weight, bias, out, b);
        return;
    }
    layernorm_forward(row_count, width, in, stats, dtype, weight, bias, out);
    if (b->rows)
        bias_rows(b->row_count, b->width, dtype, b->bias_of_rows, b->rows);
    if (b->sum)
        bias_add(row_count, width, in, dtype, b->bias_of_in, b->sum);
}

void layernorm_apply(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                     const void *weight, const void *bias, void *out)
{
    const struct isa_kernels *kernels = isa_kernels_at(out);
    SHARE_ROWS(out, row_count, width,
               kernels->layernorm_apply(count, width, in + row * width, stats + 2 * row, dtype, weight, bias,
                                        (float *)out + row * width));
}

void layernorm_backward(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                        const void *weight, const void *out_gradient, float *in_gradient, float *sums,
                        const struct sum_place *places)
{
    isa_kernels_at(in_gradient)
        ->layernorm_backward(row_count, width, in, stats, dtype, weight, out_gradient, in_gradient, sums, places);
}

void stream_backward(size_t row_count, size_t width, enum dtype dtype, float *gradient, float *sums,
                     const struct stream_parts *p)
{
    const struct isa_kernels *kernels = isa_kernels_at(gradient);
    const struct norm_back *norm = &p->norm;
    if (kernels->stream_backward) {
        kernels->stream_backward(row_count, width, dtype, gradient, sums, p);
        return;
    }
    if (norm->in && norm->is_first)
        (void)bytes_zero(gradient, row_count * width * sizeof *gradient);
    if (norm->in)
        layernorm_backward(row_count, width, norm->in, norm->stats, dtype, norm->weight, norm->out_gradient, gradient,
                           sums, norm->places);
    if (p->rounded && p->rounded != gradient)
        operand_round(dtype, row_count * width, gradient, p->rounded);
    if (p->rounded && p->place.data)
        rows_sum(row_count, width, dtype, p->rounded, sums, &p->place);
    if (p->again.in)
        layernorm_apply(row_count, width, p->again.in, p->again.stats, dtype, p->again.weight, p->again.bias,
                        p->again.out);
    if (p->other)
        rows_sum(row_count, p->other_width, dtype, p->other, sums, &p->other_place);
}

void gelu_forward(size_t row_count, size_t width, const void *in, enum dtype dtype, const void *bias, void *out)
{
    const struct isa_kernels *kernels = isa_kernels_at(out);
    SHARE_ROWS(
        out, row_count, width,
        kernels->gelu_forward(count, width, (const float *)in + row * width, dtype, bias, (float *)out + row * width));
}

void gelu_backward(size_t row_count, size_t width, const void *in, const void *gradient, enum dtype dtype,
                   const void *bias, void *out, void *in_gradient, float *sum, const struct sum_place *place)
{
    const struct isa_kernels *kernels = isa_kernels_at(out);
    if (accelerator_of(out)) {
        kernels->gelu_backward(row_count, width, in, gradient, dtype, bias, out, in_gradient, sum, place);
        return;
    }
    SHARE_ROWS(out, row_count, width,
               kernels->gelu_backward(count, width, (const float *)in + row * width,
                                      (const float *)gradient + row * width, dtype, bias, (float *)out + row * width,
                                      (float *)in_gradient + row * width, NULL, NULL));
    if (sum)
        kernels->rows_sum(row_count, width, dtype, in_gradient, sum, place);
}

void embedding_forward(const struct token_rows *rows, size_t width, enum dtype dtype, const void *token_weight,
                       const void *position_weight, float *out)
{
    isa_kernels_at(out)->embedding_forward(rows, width, dtype, token_weight, position_weight, out);
}

void embedding_backward(const struct token_rows *rows, size_t width, size_t first_token, size_t token_count,
                        const float *in, float *sums, const struct sum_place *places)
{
    isa_kernels_at(in)->embedding_backward(rows, width, first_token, token_count, in, sums, places);
}

// One row by itself: a sequence of one token.
static struct token_rows token_row(const struct token_rows *rows, size_t r)
{
    return (struct token_rows){rows->tokens + token_index(rows, r), 1, 1};
}

double crossentropy_forward(const struct token_rows *rows, size_t width, size_t stride, void *logits, float *stats,
                            float scale, enum dtype dtype)
{
    const struct isa_kernels *kernels = isa_kernels_at(logits);
    if (accelerator_of(logits))
        return kernels->crossentropy_forward(rows, width, stride, logits, stats, scale, dtype);
    double total = 0.0;
    for (size_t first = 0, row_count = rows->sequence_count * rows->length; first < row_count; first += LOSS_ROWS) {
        double losses[LOSS_ROWS];
        const size_t count = row_count - first < LOSS_ROWS ? row_count - first : LOSS_ROWS;
#pragma omp parallel for schedule(static) if (count * width >= SHARED_ELEMENTS)
        for (size_t i = 0; i < count; i++) {
            const struct token_rows row = token_row(rows, first + i);
            losses[i] = kernels->crossentropy_forward(&row, width, stride, (float *)logits + (first + i) * stride,
                                                      stats + 2 * (first + i), scale, dtype);
        }
        for (size_t i = 0; i < count; i++)
            total += losses[i];
    }
    return total;
}

void crossentropy_backward(const struct token_rows *rows, size_t width, size_t stride, const float *stats, float scale,
                           enum dtype dtype, void *logits)
{
    const struct isa_kernels *kernels = isa_kernels_at(logits);
    if (accelerator_of(logits)) {
        kernels->crossentropy_backward(rows, width, stride, stats, scale, dtype, logits);
        return;
    }
    size_t row_count = rows->sequence_count * rows->length;
#pragma omp parallel for schedule(static) if (row_count * width >= SHARED_ELEMENTS)
    for (size_t r = 0; r < row_count; r++) {
        const struct token_rows row = token_row(rows, r);
        kernels->crossentropy_backward(&row, width, stride, stats + 2 * r, scale, dtype, (float *)logits + r * stride);
    }
}
