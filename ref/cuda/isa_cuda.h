// SPDX-License-Identifier: Apache-2.0
// The kernels of isa.h on a GPU, for arrays in the memory of the calling thread's device, on its stream (cuda_lane.h).
// They have the bits of the other builds, except that the payload of a NaN may differ; tests show this for the host
// compilation (isa_host.h) and, where there is one, for a GPU. A kernel that returns a number waits for it; the others
// are complete after cuda_lane_wait, which also returns errors. A maximum that fails is a NaN.
#pragma once

#ifdef __cplusplus
extern "C" {
// C++ warns that the function isa_kernels hides the constructor of struct isa_kernels.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/matmul.h"

#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

extern const struct isa_kernels isa_cuda;

// Enqueues a product of floats, whose elements are matmul.h's chains.
void isa_cuda_matmul(const struct matmul_product *product);

// Enqueues the baseline of an optimizer step: the same loads and stores with almost no arithmetic. Afterwards p holds
// the former m, m the former v, v the bits of the former p xor those of the widened gradient, and model_params the
// former p.
void isa_cuda_mix(const struct adam_step *step);

// Enqueues: sets count words of device memory, which is 4-byte aligned. Returns 0, or the launch's error, which is
// noted.
int isa_cuda_fill(void *memory, uint32_t word, size_t count);

#ifdef __cplusplus
}
#endif
