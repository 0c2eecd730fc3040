// SPDX-License-Identifier: Apache-2.0
// Fills device memory with a word.
#ifndef ZG_TIER_CUDA_FILL_H
#define ZG_TIER_CUDA_FILL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

// Enqueues on a stream of the current device: sets count words of memory, which is 4-byte aligned. cudaGetLastError
// returns an error of the launch.
void tier_cuda_fill(void *memory, uint32_t word, size_t count, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
