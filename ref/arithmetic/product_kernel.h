// SPDX-License-Identifier: Apache-2.0
// Products of small matrices whose bits are defined: each element is one chain of fused multiply-adds over the shared
// dimension, ascending, from what is there. Tiles of the result stay in registers; their shape changes no bit. The
// including file's instruction set decides the vectors.
#include "ref/arithmetic/gpt_math.h"

#include <math.h>
#include <stddef.h>

#ifdef __clang__
#define PRODUCT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PRODUCT_UNROLL _Pragma("GCC unroll 16")
#endif

// Bytes of a vector, and vectors that a tile's row has.
#if defined(__AVX512F__)
enum { PRODUCT_VECTOR_BYTES = 64, PRODUCT_VECTORS = 4 };
#elif defined(__AVX2__)
enum { PRODUCT_VECTOR_BYTES = 32, PRODUCT_VECTORS = 2 };
#else
enum { PRODUCT_VECTOR_BYTES = 16, PRODUCT_VECTORS = 4 };
#endif
enum { PRODUCT_LANES = PRODUCT_VECTOR_BYTES / sizeof(float), PRODUCT_ROWS = 4 };

typedef float product_vector __attribute__((vector_size(PRODUCT_VECTOR_BYTES), aligned(sizeof(float)), may_alias));

static inline __attribute__((always_inline)) product_vector product_fma(float a, product_vector b, product_vector c)
{
    for (int l = 0; l < PRODUCT_LANES; l++)
        c[l] = fmaf(a, b[l], c[l]);
    return c;
}

// c += a b, with k as the shared dimension. Element (i, x) of a lies at i a_row + x a_step; rows of b and c are whole.
struct product {
    size_t k;
    const float *a;
    size_t a_row, a_step;
    const float *b;
    size_t b_stride;
    float *c;
    size_t c_stride;
};

// rows x (vectors x PRODUCT_LANES) elements of c from (row, column) on. Both sizes are constants, so loops unroll.
static inline __attribute__((always_inline)) void product_tile(const struct product *p, size_t row, size_t column,
                                                               size_t rows, size_t vectors)
{
    product_vector sum[PRODUCT_ROWS][PRODUCT_VECTORS];
    const float *a = p->a + row * p->a_row, *b = p->b + column;
    float *c = p->c + row * p->c_stride + column;
    PRODUCT_UNROLL
    for (size_t i = 0; i < rows; i++)
        PRODUCT_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[i][v] = *(const product_vector *)(c + i * p->c_stride + v * PRODUCT_LANES);
    for (size_t x = 0; x < p->k; x++, a += p->a_step, b += p->b_stride)
        PRODUCT_UNROLL
    for (size_t i = 0; i < rows; i++)
        PRODUCT_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[i][v] = product_fma(a[i * p->a_row], *(const product_vector *)(b + v * PRODUCT_LANES), sum[i][v]);
    PRODUCT_UNROLL
    for (size_t i = 0; i < rows; i++)
        PRODUCT_UNROLL
    for (size_t v = 0; v < vectors; v++)
        *(product_vector *)(c + i * p->c_stride + v * PRODUCT_LANES) = sum[i][v];
}

// The columns from `column` on that are left of whole vectors.
static void product_rest(const struct product *p, size_t m, size_t column, size_t n)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = column; j < n; j++) {
            float sum = p->c[i * p->c_stride + j];
            for (size_t x = 0; x < p->k; x++)
                sum = fmaf(p->a[i * p->a_row + x * p->a_step], p->b[x * p->b_stride + j], sum);
            p->c[i * p->c_stride + j] = sum;
        }
    }
}

// All rows of `vectors` vectors of columns, a constant.
static inline __attribute__((always_inline)) void product_columns(const struct product *p, size_t m, size_t column,
                                                                  size_t vectors)
{
    size_t i = 0;
    for (; i + PRODUCT_ROWS <= m; i += PRODUCT_ROWS)
        product_tile(p, i, column, PRODUCT_ROWS, vectors);
    for (; i < m; i++)
        product_tile(p, i, column, 1, vectors);
}

// c (m x n, row stride c_stride) += op(a) b, where op(a) is m x k and b, which is not transposed, k x n.
static void product_add(size_t m, size_t n, size_t k, struct matmul_operand a, struct matmul_operand b, float *c,
                        size_t c_stride)
{
    enum { WIDE = PRODUCT_VECTORS * PRODUCT_LANES };
    const struct product p = {k, a.data,  a.transposed ? 1 : a.stride, a.transposed ? a.stride : 1, b.data, b.stride,
                              c, c_stride};
    size_t j = 0;
    for (; j + WIDE <= n; j += WIDE)
        product_columns(&p, m, j, PRODUCT_VECTORS);
    for (; j + PRODUCT_LANES <= n; j += PRODUCT_LANES)
        product_columns(&p, m, j, 1);
    product_rest(&p, m, j, n);
}
