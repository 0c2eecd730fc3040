// SPDX-License-Identifier: Apache-2.0
// Memory of a device filled with a word.
#ifndef ZG_TIER_CUDA_FILL_H
#define ZG_TIER_CUDA_FILL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

// Begins on the stream, of the current device, to set count words from memory on, which is 4-byte aligned.
// cudaGetLastError says whether that went well.
void tier_cuda_fill(void *memory, uint32_t word, size_t count, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
