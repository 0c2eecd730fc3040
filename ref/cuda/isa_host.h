// SPDX-License-Identifier: Apache-2.0
// For tests: the kernels of isa_cuda, compiled by nvcc for the host, where a loop runs the threads one by one. Only the
// launch and the sums within a block differ from those on a GPU.
#pragma once

#include "ref/cuda/isa_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct isa_kernels isa_host;

// Sets the number of threads that share a loop: any number from 1.
void isa_host_threads(size_t count);

// As isa_cuda_matmul.
void isa_host_matmul(const struct matmul_product *product);

// As isa_cuda_mix.
void isa_host_mix(const struct adam_step *step);

#ifdef __cplusplus
}
#endif
