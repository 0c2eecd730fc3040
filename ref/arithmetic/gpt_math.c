// SPDX-License-Identifier: Apache-2.0
// OpenBLAS computes matrix products and the kernels of gpt_kernel.h the loops over rows; for arrays in an accelerator's
// memory the accelerator does both.
#include "ref/arithmetic/gpt_math.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>

static void blas_prepare(void)
{
    openblas_set_num_threads(1);
}

void matmul_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, blas_prepare);
}

static void host_matmul(const struct matmul_batch *batch, size_t index)
{
    struct matmul_operand a = batch->a, b = batch->b;
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                (blasint)batch->m, (blasint)batch->n, (blasint)batch->k, batch->alpha, a.data + index * batch->a_step,
                (blasint)a.stride, b.data + index * batch->b_step, (blasint)b.stride, batch->beta,
                batch->c + index * batch->c_step, (blasint)batch->c_stride);
}

// True if the operands have rows as long as the product needs, and sizes that BLAS can count.
static __attribute__((unused)) bool is_product(const struct matmul_batch *batch)
{
    struct matmul_operand a = batch->a, b = batch->b;
    size_t m = batch->m, n = batch->n, k = batch->k;
    return a.data && b.data && batch->c && m <= INT_MAX && n <= INT_MAX && k <= INT_MAX &&
           a.stride >= (a.transposed ? m : k) && b.stride >= (b.transposed ? k : n) && batch->c_stride >= n;
}

void matmul_many(const struct matmul_batch *batch)
{
    assert(is_product(batch));
    const struct accelerator *accelerator = accelerator_of(batch->c);
    if (accelerator) {
        accelerator->matmul(batch);
        return;
    }
    for (size_t i = 0; i < batch->count; i++)
        host_matmul(batch, i);
}

void matmul(size_t m, size_t n, size_t k, float alpha, struct matmul_operand a, struct matmul_operand b, float beta,
            float *c, size_t c_stride)
{
    matmul_many(&(struct matmul_batch){.count = 1,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .alpha = alpha,
                                       .beta = beta,
                                       .a = a,
                                       .b = b,
                                       .c = c,
                                       .c_stride = c_stride});
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

void embedding_forward(const struct token_rows *rows, size_t width, const float *token_weight,
                       const float *position_weight, float *out)
{
    isa_kernels_at(out)->embedding_forward(rows, width, token_weight, position_weight, out);
}

void token_backward(const struct token_rows *rows, size_t width, const float *in, float *gradient)
{
    isa_kernels_at(gradient)->token_backward(rows, width, in, gradient);
}

void position_backward(const struct token_rows *rows, size_t width, const float *in, float *gradient)
{
    isa_kernels_at(gradient)->position_backward(rows, width, in, gradient);
}

double crossentropy_forward(const struct token_rows *rows, size_t width, float *logits)
{
    return isa_kernels_at(logits)->crossentropy_forward(rows, width, logits);
}

void crossentropy_backward(const struct token_rows *rows, size_t width, float *softmax, float scale)
{
    isa_kernels_at(softmax)->crossentropy_backward(rows, width, softmax, scale);
}
