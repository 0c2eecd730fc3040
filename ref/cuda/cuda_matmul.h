// SPDX-License-Identifier: Apache-2.0
// Matrix products on a GPU, by cuBLAS, which is loaded at the first of them. A product's bits are a function of its
// operands on that GPU: fp32 throughout (CUBLAS_PEDANTIC_MATH), no atomic additions, and for each thread a handle and a
// workspace of its own, whose size decides what cuBLAS may choose.
#ifndef ZG_CUDA_MATMUL_H
#define ZG_CUDA_MATMUL_H

#include "ref/arithmetic/gpt_math.h"

// matmul of gpt_math.h, for arrays in the memory of the calling thread's device, begun on its stream. Errors are noted
// (cuda_lane.h).
void cuda_matmul(size_t m, size_t n, size_t k, float alpha, struct matmul_operand a, struct matmul_operand b,
                 float beta, float *c, size_t c_stride);

// Loads cuBLAS. ERR_USAGE: it is not here, or lacks a function; the message says what was looked for.
int cuda_matmul_load(void);

// "13.0.2", or NULL without cuBLAS.
const char *cuda_matmul_version(void);

#endif
