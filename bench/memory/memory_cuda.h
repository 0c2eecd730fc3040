// SPDX-License-Identifier: Apache-2.0
// Own kernels of `bench memory --device cuda`, on the calling thread's stream (ref/cuda/cuda_lane.h). Arrays are in
// device memory, begin at 16-byte boundaries, and have a multiple of MEMORY_STAMP_WORDS words. Errors are noted there.
#pragma once

#include "bench/memory/memory_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

void memory_cuda_copy(memory_word *to, const memory_word *from, size_t count);
void memory_cuda_write(memory_word *to, size_t count, memory_word value);

// Adds the sum of all words, modulo 2^64, to *sum in device memory.
void memory_cuda_read(const memory_word *from, size_t count, memory_word *sum);

#ifdef __cplusplus
}
#endif
