// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/tier_cuda_fill.h"

static const size_t THREADS = 256, BLOCKS_MAX = 4096;

__global__ void fill(uint32_t *memory, uint32_t word, size_t count)
{
    size_t stride = gridDim.x * THREADS;
    for (size_t i = blockIdx.x * THREADS + threadIdx.x; i < count; i += stride)
        memory[i] = word;
}

void tier_cuda_fill(void *memory, uint32_t word, size_t count, struct CUstream_st *stream)
{
    size_t needed = (count + THREADS - 1) / THREADS;
    unsigned blocks = (unsigned)(needed < BLOCKS_MAX ? needed : BLOCKS_MAX);
    if (count > 0)
        fill<<<blocks, (unsigned)THREADS, 0, stream>>>((uint32_t *)memory, word, count);
}
