// SPDX-License-Identifier: Apache-2.0
// Runs the operations of array_element.cuh and gpt_element.cuh on a GPU.
#include "ref/cuda/cuda_grid.cuh"
#include "ref/cuda/isa_cuda.h"
#include "ref/cuda/isa_table.cuh"
#include "ref/cuda/matmul_element.cuh"

// __grid_constant__ keeps the operation, whose list of inputs is indexed, in constant memory.
template <typename operation>
__global__ void element_kernel(const __grid_constant__ operation o, size_t count, bool wide)
{
    each(o, thread_position(), count, wide);
}

// The block's part of the range that has it.
template <typename operation>
__device__ static inline void each_of_range(operation &o, const struct norm_ranges &ranges)
{
    int which = 0;
    while (blockIdx.x >= ranges.end[which])
        which++;
    const unsigned first = which > 0 ? ranges.end[which - 1] : 0;
    o.values = ranges.at[which].values;
    each(o, {(blockIdx.x - first) * (size_t)blockDim.x + threadIdx.x, (ranges.end[which] - first) * (size_t)blockDim.x},
         ranges.at[which].count, is_wide(o.dtype, o.values));
}

__global__ void norm_max_kernel(norm_max_operation o, const __grid_constant__ struct norm_ranges ranges,
                                uint32_t *of_block)
{
    __shared__ uint32_t max;
    if (threadIdx.x == 0)
        max = 0;
    __syncthreads();
    each_of_range(o, ranges);
    atomicMax(&max, o.max);
    __syncthreads();
    if (threadIdx.x == 0)
        of_block[blockIdx.x] = max;
}

__global__ void norm_kernel(norm_operation o, const __grid_constant__ struct norm_ranges ranges,
                            struct norm_sum *of_block)
{
    __shared__ struct norm_sum sums[GRID_THREADS];
    each_of_range(o, ranges);
    sums[threadIdx.x] = o.sum;
    for (unsigned half = GRID_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            norm_add(&sums[threadIdx.x], sums[threadIdx.x + half]);
    }
    if (threadIdx.x == 0)
        of_block[blockIdx.x] = sums[0];
}

// A team of ROW_LANES threads for each row.
template <typename operation>
__device__ static inline void each_row(const operation &o, struct grid_position position, size_t count)
{
    const device_team team;
    for (size_t row = position.index / ROW_LANES; row < count; row += position.count / ROW_LANES)
        o.row(team, row);
}

template <typename operation> __global__ void row_kernel(const __grid_constant__ operation o, size_t count)
{
    each_row(o, thread_position(), count);
}

// A block of threads for each row.
template <typename operation>
__global__ void __launch_bounds__(BLOCK_THREADS) long_row_kernel(const __grid_constant__ operation o)
{
    __shared__ device_row_block::memory shared;
    o.row(device_row_block{shared}, blockIdx.x);
}

// The first `blocks` blocks have the one operation, the others the other one.
template <typename operation, typename row_operation>
__global__ void with_rows_kernel(const __grid_constant__ operation o, size_t count, bool wide, unsigned blocks,
                                 const __grid_constant__ row_operation rows, size_t row_count)
{
    const struct grid_position position = thread_position();
    const size_t first = blocks * (size_t)blockDim.x;
    if (position.index < first)
        each(o, {position.index, first}, count, wide);
    else
        each_row(rows, {position.index - first, position.count - first}, row_count);
}

// A block of threads for each task.
template <typename operation>
__global__ void __launch_bounds__(TILE_THREADS, operation::BLOCKS) task_kernel(const __grid_constant__ operation o)
{
    __shared__ typename operation::memory shared;
    o.task(device_block(), blockIdx.x, shared);
}

static size_t group_count(size_t count, bool wide)
{
    return wide ? count / WIDE + count % WIDE : count;
}

struct on_device {
    typedef device_block block;

    template <typename operation> static void run(const operation &o, size_t count, bool wide, const char *what)
    {
        if (count == 0)
            return;
        element_kernel<operation>
            <<<grid_blocks(group_count(count, wide), GRID_ROUNDS), GRID_THREADS, 0, cuda_lane_stream()>>>(o, count,
                                                                                                          wide);
        cuda_lane_launched(what);
    }

    template <typename operation> static void rows(const operation &o, size_t count, const char *what)
    {
        if (count == 0)
            return;
        row_kernel<operation>
            <<<grid_blocks(count * ROW_LANES, GRID_ROUNDS), GRID_THREADS, 0, cuda_lane_stream()>>>(o, count);
        cuda_lane_launched(what);
    }

    template <typename operation> static void tasks(const operation &o, size_t count, const char *what)
    {
        if (count == 0)
            return;
        task_kernel<operation><<<(unsigned)count, TILE_THREADS, 0, cuda_lane_stream()>>>(o);
        cuda_lane_launched(what);
    }

    template <typename operation> static void long_rows(const operation &o, size_t count, const char *what)
    {
        if (count == 0)
            return;
        long_row_kernel<operation><<<(unsigned)count, BLOCK_THREADS, 0, cuda_lane_stream()>>>(o);
        cuda_lane_launched(what);
    }

    static void stream(const stream_operation &o, size_t block_count, const char *what)
    {
        if (block_count == 0)
            return;
        stream_kernel<stream_operation><<<(unsigned)block_count, BLOCK_THREADS, 0, cuda_lane_stream()>>>(o);
        cuda_lane_launched(what);
    }

    template <typename operation, typename row_operation>
    static void with_rows(const operation &o, size_t count, bool wide, const row_operation &rows, size_t row_count,
                          const char *what)
    {
        if (count == 0 && row_count == 0)
            return;
        const unsigned blocks = grid_blocks(group_count(count, wide), GRID_ROUNDS);
        const unsigned of_rows = grid_blocks(row_count * ROW_LANES, GRID_ROUNDS);
        with_rows_kernel<operation, row_operation>
            <<<blocks + of_rows, GRID_THREADS, 0, cuda_lane_stream()>>>(o, count, wide, blocks, rows, row_count);
        cuda_lane_launched(what);
    }

    static void *scratch(size_t bytes, enum scratch which)
    {
        return grid_scratch(bytes, which);
    }

    static int give(void *to, const void *from, size_t bytes, const char *what)
    {
        return cuda_lane_note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, cuda_lane_stream()), what);
    }

    static int fetch(void *to, const void *from, size_t bytes, const char *what)
    {
        return grid_fetch(to, from, bytes, what);
    }

    // Deals a launch's blocks to the ranges, by their work.
    static unsigned deal(enum dtype dtype, struct norm_ranges &ranges)
    {
        size_t work[NORM_RANGES], all = 0;
        for (int i = 0; i < ranges.count; i++)
            all += work[i] = group_count(ranges.at[i].count, is_wide(dtype, ranges.at[i].values));
        const unsigned blocks = grid_blocks(all, 1);
        for (int i = 0; i < ranges.count; i++)
            ranges.end[i] =
                (i > 0 ? ranges.end[i - 1] : 0) + (unsigned)(work[i] > 0 ? (work[i] * blocks + all - 1) / all : 0);
        return ranges.end[ranges.count - 1];
    }

    // Calls launch(blocks, ranges, results) and add(range, result) for each block's result; false: an error is noted.
    template <typename result, typename launcher, typename adder>
    static bool of_blocks(enum dtype dtype, struct norm_ranges ranges, const char *what, launcher launch, adder add)
    {
        const unsigned blocks = deal(dtype, ranges);
        if (blocks == 0)
            return true;
        result *found = (result *)malloc(blocks * sizeof *found), *there = NULL;
        if (!found)
            cuda_lane_note(cudaErrorMemoryAllocation, "memory of the host for results");
        else
            there = (result *)grid_scratch(blocks * sizeof *found);
        if (there)
            launch(blocks, ranges, there);
        const bool is_done = there && grid_fetch(found, there, blocks * sizeof *found, what) == 0;
        for (int i = 0; is_done && i < ranges.count; i++)
            for (unsigned block = i > 0 ? ranges.end[i - 1] : 0; block < ranges.end[i]; block++)
                add(i, found[block]);
        free(found);
        return is_done;
    }

    static void max(const norm_max_operation &o, const struct norm_ranges &ranges, uint32_t *found)
    {
        memset(found, 0, (size_t)ranges.count * sizeof *found);
        const bool is_done = of_blocks<uint32_t>(
            o.dtype, ranges, "a maximum",
            [&](unsigned blocks, const struct norm_ranges &dealt, uint32_t *there) {
                norm_max_kernel<<<blocks, GRID_THREADS, 0, cuda_lane_stream()>>>(o, dealt, there);
            },
            [&](int i, uint32_t max) { found[i] = max > found[i] ? max : found[i]; });
        for (int i = 0; !is_done && i < ranges.count; i++)
            found[i] = UINT32_MAX;
    }

    static void sum(const norm_operation &o, const struct norm_ranges &ranges, struct norm_sum *found)
    {
        memset(found, 0, (size_t)ranges.count * sizeof *found);
        of_blocks<struct norm_sum>(
            o.dtype, ranges, "a norm",
            [&](unsigned blocks, const struct norm_ranges &dealt, struct norm_sum *there) {
                norm_kernel<<<blocks, GRID_THREADS, 0, cuda_lane_stream()>>>(o, dealt, there);
            },
            [&](int i, struct norm_sum sum) { norm_add(&found[i], sum); });
    }

    static const void *const *list(const void *const in[], size_t count)
    {
        void *there = NULL;
        // The call returns after it has read the caller's memory, because that is not pinned.
        if (cuda_lane_note(cudaMallocAsync(&there, count * sizeof *in, cuda_lane_stream()), "a list of inputs") ||
            cuda_lane_note(cudaMemcpyAsync(there, in, count * sizeof *in, cudaMemcpyHostToDevice, cuda_lane_stream()),
                           "a list of inputs"))
            return NULL;
        return (const void *const *)there;
    }

    static void unlist(const void *const *there)
    {
        cuda_lane_note(cudaFreeAsync((void *)there, cuda_lane_stream()), "a list of inputs");
    }
};

void isa_cuda_matmul(const struct matmul_product *product)
{
    matmul_chains<on_device>(product);
}

void isa_cuda_mix(const struct adam_step *step)
{
    on_device::run(mix_operation{*step}, step->count, is_wide_step(step), "the baseline of an optimizer step");
}

struct fill_operation {
    uint32_t *memory, word;

    template <int> __host__ __device__ void at(size_t i) const
    {
        memory[i] = word;
    }
};

int isa_cuda_fill(void *memory, uint32_t word, size_t count)
{
    const fill_operation o = {(uint32_t *)memory, word};
    if (count == 0)
        return 0;
    element_kernel<fill_operation>
        <<<grid_blocks(count, GRID_ROUNDS), GRID_THREADS, 0, cuda_lane_stream()>>>(o, count, false);
    return cuda_lane_launched("a fill");
}

const struct isa_kernels isa_cuda = isa_table<on_device>();
