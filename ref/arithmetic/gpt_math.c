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

size_t operand_bytes(enum dtype dtype, const void *address)
{
    return accelerator_of(address) ? dtype_bytes(dtype) : sizeof(float);
}

void operand_round(enum dtype dtype, size_t count, const float *in, void *out)
{
    isa_kernels_at(out)->operand_round(dtype, count, in, out);
}

static void host_matmul(const struct matmul_product *p)
{
    float *c = p->c;
    cblas_sgemm(CblasRowMajor, p->a.transposed ? CblasTrans : CblasNoTrans, p->b.transposed ? CblasTrans : CblasNoTrans,
                (blasint)p->m, (blasint)p->n, (blasint)p->k, p->alpha, p->a.data, (blasint)p->a.stride, p->b.data,
                (blasint)p->b.stride, p->beta, c, (blasint)p->c_stride);
    const struct isa_kernels *kernels = isa_kernels();
    for (size_t row = 0; p->c_is_operand && p->dtype != DTYPE_FP32 && row < p->m; row++)
        kernels->operand_round(p->dtype, p->n, c + row * p->c_stride, c + row * p->c_stride);
}

// True if the operands have rows as long as the product needs, and sizes that BLAS can count.
static __attribute__((unused)) bool is_product(const struct matmul_product *p)
{
    return p->a.data && p->b.data && p->c && p->m <= INT_MAX && p->n <= INT_MAX && p->k <= INT_MAX &&
           p->a.stride >= (p->a.transposed ? p->m : p->k) && p->b.stride >= (p->b.transposed ? p->k : p->n) &&
           p->c_stride >= p->n;
}

void matmul_operands(const struct matmul_product *product)
{
    assert(is_product(product));
    const struct accelerator *accelerator = accelerator_of(product->c);
    if (accelerator)
        accelerator->matmul(product);
    else
        host_matmul(product);
}

void matmul(size_t m, size_t n, size_t k, float alpha, struct matmul_operand a, struct matmul_operand b, float beta,
            float *c, size_t c_stride)
{
    matmul_operands(&(struct matmul_product){
        .m = m, .n = n, .k = k, .alpha = alpha, .beta = beta, .a = a, .b = b, .c = c, .c_stride = c_stride});
}

void bias_rows(size_t row_count, size_t width, enum dtype dtype, const void *bias, void *out)
{
    isa_kernels_at(out)->bias_rows(row_count, width, dtype, bias, out);
}

void bias_add(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *bias, float *out)
{
    isa_kernels_at(out)->bias_add(row_count, width, in, dtype, bias, out);
}

void rows_sum(size_t row_count, size_t width, enum dtype dtype, const void *in, float *out)
{
    isa_kernels_at(out)->rows_sum(row_count, width, dtype, in, out);
}

void layernorm_stats(size_t row_count, size_t width, const float *in, float *stats)
{
    isa_kernels_at(stats)->layernorm_stats(row_count, width, in, stats);
}

void layernorm_apply(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                     const void *weight, const void *bias, void *out)
{
    isa_kernels_at(out)->layernorm_apply(row_count, width, in, stats, dtype, weight, bias, out);
}

void layernorm_backward(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                        const void *weight, const float *out_gradient, float *in_gradient, float *weight_gradient,
                        float *bias_gradient)
{
    isa_kernels_at(in_gradient)
        ->layernorm_backward(row_count, width, in, stats, dtype, weight, out_gradient, in_gradient, weight_gradient,
                             bias_gradient);
}

void gelu_forward(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *bias, void *out)
{
    isa_kernels_at(out)->gelu_forward(row_count, width, in, dtype, bias, out);
}

void gelu_backward(size_t row_count, size_t width, const float *in, const float *gradient, enum dtype dtype,
                   const void *bias, void *out, void *in_gradient)
{
    isa_kernels_at(out)->gelu_backward(row_count, width, in, gradient, dtype, bias, out, in_gradient);
}

void embedding_forward(const struct token_rows *rows, size_t width, enum dtype dtype, const void *token_weight,
                       const void *position_weight, float *out)
{
    isa_kernels_at(out)->embedding_forward(rows, width, dtype, token_weight, position_weight, out);
}

void token_backward(const struct token_rows *rows, size_t width, const float *in, float *gradient)
{
    isa_kernels_at(gradient)->token_backward(rows, width, in, gradient);
}

void position_backward(const struct token_rows *rows, size_t width, const float *in, float *gradient)
{
    isa_kernels_at(gradient)->position_backward(rows, width, in, gradient);
}

double crossentropy_forward(const struct token_rows *rows, size_t width, size_t stride, const float *logits,
                            float *stats)
{
    return isa_kernels_at(logits)->crossentropy_forward(rows, width, stride, logits, stats);
}

void crossentropy_backward(const struct token_rows *rows, size_t width, size_t stride, const float *stats, float scale,
                           enum dtype dtype, float *logits)
{
    isa_kernels_at(logits)->crossentropy_backward(rows, width, stride, stats, scale, dtype, logits);
}
