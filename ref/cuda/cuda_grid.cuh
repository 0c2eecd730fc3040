// SPDX-License-Identifier: Apache-2.0
// Spreads a loop over a device, in blocks of threads that take it in strides, and fetches results.
#pragma once

#include "ref/cuda/array_element.cuh"
#include "ref/cuda/cuda_lane.h"

// Threads of a block; blocks that a multiprocessor holds; and launched blocks per block held, where blocks return no
// result: later blocks then balance the load of earlier ones.
enum { GRID_THREADS = 256, GRID_BLOCKS_HELD = 8, GRID_ROUNDS = 4 };

__device__ static inline struct grid_position thread_position()
{
    return {blockIdx.x * (size_t)blockDim.x + threadIdx.x, gridDim.x * (size_t)blockDim.x};
}

// Returns the number of blocks for `work` threads, at most `rounds` times the blocks that the device holds.
unsigned grid_blocks(size_t work, unsigned rounds);

// Returns memory of the calling thread's device, for results page-locked memory of the host that the device writes,
// valid until the thread's next call for the same one; null: an error is noted.
void *grid_scratch(size_t bytes, enum scratch which = SCRATCH_RESULTS);

// Notes the launch's error, waits for the launch, and copies its results. Returns 0, or a noted error.
int grid_fetch(void *to, const void *from, size_t bytes, const char *what);
