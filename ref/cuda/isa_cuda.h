// SPDX-License-Identifier: Apache-2.0
// The kernels of isa.h on a GPU: for arrays in the memory of the calling thread's device, on its stream (cuda_lane.h).
// The bits are those of the other builds, except that of a NaN only its being one is the same. What returns a number
// waits for it; the rest is begun, and complete after cuda_lane_wait. Errors are noted for that wait; a maximum that
// could not be had is a NaN's.
#ifndef ZG_ISA_CUDA_H
#define ZG_ISA_CUDA_H

#ifdef __cplusplus
extern "C" {
// struct isa_kernels and the function isa_kernels are two things, in C++ as in C.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#include "ref/arithmetic/isa.h"

#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

extern const struct isa_kernels isa_cuda;

// Begins the baseline of an optimizer step: the same loads and stores, element by element, with hardly any arithmetic
// between them. Afterwards p is the former m, m the former v, v the bits of p with those of the widened gradient
// (exclusive or), and the copy p's.
void isa_cuda_mix(const struct adam_step *step);

#ifdef __cplusplus
}
#endif

#endif
