// SPDX-License-Identifier: Apache-2.0
// OpenBLAS computes matrix products and the kernels of gpt_kernel.h the loops over rows; for arrays in an accelerator's
// memory the accelerator does both.
#include "ref/arithmetic/gpt_math.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"
#include "base/err.h"
#include "base/openblas.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>

static void blas_prepare(void)
{
    openblas_set_num_threads(1);
}

int matmul_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    TRY(openblas_load());
    pthread_once(&once, blas_prepare);
    return ERR_NONE;
}

void matmul(size_t m, size_t n, size_t k, float alpha, struct matmul_operand a, struct matmul_operand b, float beta,
            float *c, size_t c_stride)
{
    assert(a.data && b.data && c && m <= INT_MAX && n <= INT_MAX && k <= INT_MAX);
    assert(a.stride >= (a.transposed ? m : k) && b.stride >= (b.transposed ? k : n) && c_stride >= n);
    const struct accelerator *accelerator = accelerator_of(c);
    if (accelerator) {
        accelerator->matmul(m, n, k, alpha, a, b, beta, c, c_stride);
        return;
    }
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)k, alpha, a.data, (blasint)a.stride, b.data, (blasint)b.stride, beta,
                c, (blasint)c_stride);
}

// scores = softmax(q k^T / sqrt(head_width)) of one head of one sequence.
static void attention_scores(size_t length, size_t head_width, struct matmul_operand q, struct matmul_operand k,
                             float *scores)
{
    k.transposed = true;
    matmul(length, length, head_width, 1.0f / sqrtf((float)head_width), q, k, 0.0f, scores, length);
    isa_kernels_at(scores)->softmax_causal(length, scores);
}

void attention_forward(const struct attention_shape *shape, const float *qkv, float *out, float *scores)
{
    assert(shape->head_count > 0 && shape->width % shape->head_count == 0);
    size_t length = shape->sequence_length, width = shape->width, head_width = width / shape->head_count;
    for (size_t s = 0; s < shape->sequence_count; s++, qkv += length * 3 * width, out += length * width) {
        for (size_t head = 0; head < width; head += head_width) {
            struct matmul_operand q = {qkv + head, 3 * width, false}, k = {qkv + width + head, 3 * width, false};
            struct matmul_operand v = {qkv + 2 * width + head, 3 * width, false}, p = {scores, length, false};
            attention_scores(length, head_width, q, k, scores);
            matmul(length, head_width, length, 1.0f, p, v, 0.0f, out + head, width);
        }
    }
}

void attention_backward(const struct attention_shape *shape, const float *qkv, const float *out_gradient,
                        float *qkv_gradient, float *scores, float *scores_gradient)
{
    assert(shape->head_count > 0 && shape->width % shape->head_count == 0);
    size_t length = shape->sequence_length, width = shape->width, head_width = width / shape->head_count;
    float scale = 1.0f / sqrtf((float)head_width);
    for (size_t s = 0; s < shape->sequence_count; s++) {
        for (size_t head = 0; head < width; head += head_width) {
            struct matmul_operand q = {qkv + head, 3 * width, false}, k = {qkv + width + head, 3 * width, false};
            struct matmul_operand v = {qkv + 2 * width + head, 3 * width, true};
            struct matmul_operand p_transposed = {scores, length, true}, o = {out_gradient + head, width, false};
            struct matmul_operand ds = {scores_gradient, length, false},
                                  ds_transposed = {scores_gradient, length, true};
            attention_scores(length, head_width, q, k, scores);
            matmul(length, head_width, length, 1.0f, p_transposed, o, 0.0f, qkv_gradient + 2 * width + head, 3 * width);
            matmul(length, length, head_width, 1.0f, o, v, 0.0f, scores_gradient, length);
            isa_kernels_at(scores)->softmax_causal_backward(length, scores, scores_gradient);
            matmul(length, head_width, length, scale, ds, k, 0.0f, qkv_gradient + head, 3 * width);
            matmul(length, head_width, length, scale, ds_transposed, q, 0.0f, qkv_gradient + width + head, 3 * width);
        }
        qkv += length * 3 * width;
        qkv_gradient += length * 3 * width;
        out_gradient += length * width;
    }
}

void bias_add(size_t row_count, size_t width, const float *in, const float *bias, float *out)
{
    isa_kernels_at(out)->bias_add(row_count, width, in, bias, out);
}

void rows_sum(size_t row_count, size_t width, const float *in, float *out)
{
    isa_kernels_at(out)->rows_sum(row_count, width, in, out);
}

void layernorm_stats(size_t row_count, size_t width, const float *in, float *stats)
{
    isa_kernels_at(stats)->layernorm_stats(row_count, width, in, stats);
}

void layernorm_apply(size_t row_count, size_t width, const float *in, const float *stats, const float *weight,
                     const float *bias, float *out)
{
    isa_kernels_at(out)->layernorm_apply(row_count, width, in, stats, weight, bias, out);
}

void layernorm_backward(size_t row_count, size_t width, const float *in, const float *stats, const float *weight,
                        const float *out_gradient, float *in_gradient, float *weight_gradient, float *bias_gradient)
{
    isa_kernels_at(in_gradient)
        ->layernorm_backward(row_count, width, in, stats, weight, out_gradient, in_gradient, weight_gradient,
                             bias_gradient);
}

void gelu_forward(size_t count, const float *in, float *out)
{
    isa_kernels_at(out)->gelu_forward(count, in, out);
}

void gelu_backward(size_t count, const float *in, float *out, float *gradient)
{
    isa_kernels_at(out)->gelu_backward(count, in, out, gradient);
}

void embedding_forward(size_t row_count, size_t width, const uint16_t *tokens, const float *token_weight,
                       const float *position_weight, float *out)
{
    isa_kernels_at(out)->embedding_forward(row_count, width, tokens, token_weight, position_weight, out);
}

void embedding_backward(size_t row_count, size_t width, const uint16_t *tokens, const float *in, float *gradient)
{
    isa_kernels_at(gradient)->embedding_backward(row_count, width, tokens, in, gradient);
}

double crossentropy_forward(size_t row_count, size_t width, float *logits, const uint16_t *target)
{
    return isa_kernels_at(logits)->crossentropy_forward(row_count, width, logits, target);
}

void crossentropy_backward(size_t row_count, size_t width, float *softmax, const uint16_t *target, float scale)
{
    isa_kernels_at(softmax)->crossentropy_backward(row_count, width, softmax, target, scale);
}
