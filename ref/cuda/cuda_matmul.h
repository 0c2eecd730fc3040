// SPDX-License-Identifier: Apache-2.0
// Matrix products on a GPU: of floats by our kernel (isa_cuda.h), of 16-bit operands by cuBLAS, which is loaded on
// first use. The settings make a product's bits a function of its operands on that GPU: sums in fp32
// (CUBLAS_COMPUTE_32F, for fp32 operands its pedantic form), no atomic additions, and for each thread its own handle
// and workspace, whose size determines cuBLAS's choice of algorithm.
#pragma once

#include "ref/arithmetic/matmul.h"

// matmul of matmul.h for arrays in the memory of the calling thread's device, enqueued on its stream. Notes
// errors (cuda_lane.h).
void cuda_matmul(const struct matmul_product *product);

// by_cublas: cuBLAS makes products of floats, too. Else our kernel makes them, as matmul.h defines them. For the whole
// process, before its products.
void cuda_matmul_choose(bool by_cublas);

// Loads cuBLAS. ERR_USAGE names the library, or the function in it, that is missing.
int cuda_matmul_load(void);

// Returns a version such as "13.0.2", or null without cuBLAS.
const char *cuda_matmul_version(void);
