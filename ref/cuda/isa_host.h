// SPDX-License-Identifier: Apache-2.0
// For tests: the kernels of isa_cuda as nvcc compiles them for the host, where a loop runs the threads one by one. They
// share with those on a GPU all but the launch and the sums within a block.
#ifndef ZG_ISA_HOST_H
#define ZG_ISA_HOST_H

#include "ref/cuda/isa_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct isa_kernels isa_host;

// How many threads share a loop from now on; more than there are elements, one, or any other number.
void isa_host_threads(size_t count);

// isa_cuda_mix.
void isa_host_mix(const struct adam_step *step);

#ifdef __cplusplus
}
#endif

#endif
