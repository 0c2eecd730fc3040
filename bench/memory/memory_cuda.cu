// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_cuda.h"

#include "ref/cuda/cuda_grid.cuh"

// Two words, which a thread moves by one instruction.
typedef ulonglong2 vector;
enum { VECTOR_WORDS = 2 };

// A thread starts IN_FLIGHT loads before it uses the first: 64 bytes a thread, 128 KiB a multiprocessor of 2048
// threads, several times what covers the latency of HBM. A block's part of an array is contiguous.
enum { IN_FLIGHT = 4, TILE = IN_FLIGHT * GRID_THREADS };

__global__ void copy_kernel(vector *to, const vector *from, size_t count)
{
    size_t begin = blockIdx.x * (size_t)TILE + threadIdx.x;
    vector held[IN_FLIGHT];
#pragma unroll
    for (int i = 0; i < IN_FLIGHT; i++)
        if (begin + i * GRID_THREADS < count)
            held[i] = from[begin + i * GRID_THREADS];
#pragma unroll
    for (int i = 0; i < IN_FLIGHT; i++)
        if (begin + i * GRID_THREADS < count)
            to[begin + i * GRID_THREADS] = held[i];
}

__global__ void write_kernel(vector *to, size_t count, memory_word value)
{
    size_t begin = blockIdx.x * (size_t)TILE + threadIdx.x;
#pragma unroll
    for (int i = 0; i < IN_FLIGHT; i++)
        if (begin + i * GRID_THREADS < count)
            to[begin + i * GRID_THREADS] = make_ulonglong2(value, value);
}

// As many blocks as the device holds go through the array together, so that few results are added atomically.
__global__ void read_kernel(const vector *from, size_t count, unsigned long long *sum)
{
    __shared__ unsigned long long of_block;
    unsigned long long own = 0;
    if (threadIdx.x == 0)
        of_block = 0;
    __syncthreads();
    for (size_t tile = blockIdx.x * (size_t)TILE; tile < count; tile += gridDim.x * (size_t)TILE) {
        vector held[IN_FLIGHT];
#pragma unroll
        for (int i = 0; i < IN_FLIGHT; i++) {
            size_t at = tile + i * GRID_THREADS + threadIdx.x;
            held[i] = at < count ? from[at] : make_ulonglong2(0, 0);
        }
#pragma unroll
        for (int i = 0; i < IN_FLIGHT; i++)
            own += held[i].x + held[i].y;
    }
    atomicAdd(&of_block, own);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(sum, of_block);
}

static size_t tiles(size_t vectors)
{
    return (vectors + TILE - 1) / TILE;
}

void memory_cuda_copy(memory_word *to, const memory_word *from, size_t count)
{
    size_t vectors = count / VECTOR_WORDS;
    copy_kernel<<<(unsigned)tiles(vectors), GRID_THREADS, 0, cuda_lane_stream()>>>((vector *)to, (const vector *)from,
                                                                                   vectors);
    cuda_lane_launched("a copy by a kernel");
}

void memory_cuda_write(memory_word *to, size_t count, memory_word value)
{
    size_t vectors = count / VECTOR_WORDS;
    write_kernel<<<(unsigned)tiles(vectors), GRID_THREADS, 0, cuda_lane_stream()>>>((vector *)to, vectors, value);
    cuda_lane_launched("a write by a kernel");
}

void memory_cuda_read(const memory_word *from, size_t count, memory_word *sum)
{
    size_t vectors = count / VECTOR_WORDS;
    unsigned blocks = grid_blocks(tiles(vectors) * GRID_THREADS, 1);
    read_kernel<<<blocks, GRID_THREADS, 0, cuda_lane_stream()>>>((const vector *)from, vectors,
                                                                 (unsigned long long *)sum);
    cuda_lane_launched("a read by a kernel");
}
