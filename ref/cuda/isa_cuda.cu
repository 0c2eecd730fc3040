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

__global__ void norm_max_kernel(norm_max_operation o, size_t count, bool wide, uint32_t *of_block)
{
    __shared__ uint32_t max;
    if (threadIdx.x == 0)
        max = 0;
    __syncthreads();
    each(o, thread_position(), count, wide);
    atomicMax(&max, o.max);
    __syncthreads();
    if (threadIdx.x == 0)
        of_block[blockIdx.x] = max;
}

__global__ void norm_kernel(norm_operation o, size_t count, bool wide, struct norm_sum *of_block)
{
    __shared__ struct norm_sum sums[GRID_THREADS];
    each(o, thread_position(), count, wide);
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
__global__ void __launch_bounds__(TILE_THREADS) task_kernel(const __grid_constant__ operation o)
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

    template <typename operation, typename row_operation>
    static void with_rows(const operation &o, size_t count, bool wide, const row_operation &rows, size_t row_count,
                          const char *what)
    {
        if (count == 0 || row_count == 0)
            return;
        const unsigned blocks = grid_blocks(group_count(count, wide), GRID_ROUNDS);
        const unsigned of_rows = grid_blocks(row_count * ROW_LANES, GRID_ROUNDS);
        with_rows_kernel<operation, row_operation><<<blocks + of_rows, GRID_THREADS, 0, cuda_lane_stream()>>>(
            o, count, wide, blocks, rows, row_count);
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

    // Each block's result, which the host adds: `found` has room for them; null: an error is noted.
    template <typename result> static result *results_of(size_t blocks, result **found)
    {
        *found = (result *)malloc(blocks * sizeof **found);
        if (!*found)
            cuda_lane_note(cudaErrorMemoryAllocation, "memory of the host for results");
        return *found ? (result *)grid_scratch(blocks * sizeof **found) : NULL;
    }

    static uint32_t max(const norm_max_operation &o, size_t count, bool wide)
    {
        uint32_t *found, largest = 0;
        if (count == 0)
            return 0;
        const unsigned blocks = grid_blocks(group_count(count, wide), 1);
        uint32_t *there = results_of(blocks, &found);
        if (there)
            norm_max_kernel<<<blocks, GRID_THREADS, 0, cuda_lane_stream()>>>(o, count, wide, there);
        if (!there || grid_fetch(found, there, blocks * sizeof *found, "a maximum"))
            largest = UINT32_MAX;
        for (unsigned block = 0; block < blocks && largest < UINT32_MAX; block++)
            largest = found[block] > largest ? found[block] : largest;
        free(found);
        return largest;
    }

    static struct norm_sum sum(const norm_operation &o, size_t count, bool wide)
    {
        struct norm_sum *found, sum = {0, 0};
        if (count == 0)
            return sum;
        const unsigned blocks = grid_blocks(group_count(count, wide), 1);
        struct norm_sum *there = results_of(blocks, &found);
        if (there)
            norm_kernel<<<blocks, GRID_THREADS, 0, cuda_lane_stream()>>>(o, count, wide, there);
        if (there && grid_fetch(found, there, blocks * sizeof *found, "a norm") == 0)
            for (unsigned block = 0; block < blocks; block++)
                norm_add(&sum, found[block]);
        free(found);
        return sum;
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
