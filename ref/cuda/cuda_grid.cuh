// SPDX-License-Identifier: Apache-2.0
// How a loop is spread over a device: blocks of threads that take it in strides, and the results that come back.
#ifndef ZG_CUDA_GRID_CUH
#define ZG_CUDA_GRID_CUH

#include "ref/cuda/array_element.cuh"
#include "ref/cuda/cuda_lane.h"

// Threads of a block; blocks that a multiprocessor holds; how many times that many are launched, where a block has
// nothing to give back, so that the last ones even out what the first were late.
enum { GRID_THREADS = 256, GRID_BLOCKS_HELD = 8, GRID_ROUNDS = 4 };

__device__ static inline struct grid_position thread_position()
{
    return {blockIdx.x * (size_t)blockDim.x + threadIdx.x, gridDim.x * (size_t)blockDim.x};
}

// As many blocks as `work` threads need, and no more than `rounds` times what the device holds.
unsigned grid_blocks(size_t work, unsigned rounds);

// Memory of the calling thread's device for results, until the thread's next call of this; null: an error is noted.
void *grid_scratch(size_t bytes);

// Notes what a launch says of itself, waits for it, and copies its result from the device. 0, or an error, noted.
int grid_fetch(void *to, const void *from, size_t bytes, const char *what);

#endif
