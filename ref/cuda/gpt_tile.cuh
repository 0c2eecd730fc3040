// SPDX-License-Identifier: Apache-2.0
// Products of tiles (tile.cuh) for the threads of a block. The operands are the block's own tile and one of TILE_OTHER
// rows; the sums stay in the threads' registers. In fp32, and on the host in every format, an element is one chain of
// fused multiply-adds, which gives the host's bits (ref/arithmetic/matmul.h); a GPU multiplies 16-bit operands on
// tensor cores (mma_sum.cuh), whose sums have an order of their own. For tests on the host a block is one thread.
#pragma once

#include "ref/cuda/mma_sum.cuh"

#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>
#endif

template <typename sum> struct chain_softmax;  // attention_softmax.cuh

// The sums of ROWS x TILE_COLUMNS elements, of which a thread has `height` rows from `row` on and `width` columns from
// `column` on, `step` apart. add: += own other, or with is_turned own other^T, over k ascending.
template <enum dtype D, int height, int width, int step> struct chain_sum {
    enum { ROWS = 32 };
    typedef tile<D, ROWS> operand;
    typedef chain_softmax<chain_sum> softmax;
    float x[height * width];
    unsigned row, column;

    __host__ __device__ chain_sum(unsigned first_row, unsigned first_column) : row(first_row), column(first_column)
    {
        zero();
    }

    __host__ __device__ void zero()
    {
        for (int i = 0; i < height * width; i++)
            x[i] = 0;
    }

    // The sums as a product's left operand, in shared memory of the block that no thread reads any longer.
#pragma nv_exec_check_disable
    template <typename block_type>
    __host__ __device__ const operand &as_operand(const block_type &block, operand &memory)
    {
        each([&](unsigned r, unsigned c, float sum) { memory.put(r, c, sum); });
        block.sync();
        return memory;
    }

    // Calls f(row, column, sum).
    template <typename function> __host__ __device__ void each(function f)
    {
        UNROLL(16)
        for (int i = 0; i < height * width; i++)
            f(row + i / width, column + i % width * step, x[i]);
    }

    // Calls f(row, column, sum, the other's sum).
    template <typename function> __host__ __device__ void both(chain_sum &other, function f)
    {
        UNROLL(16)
        for (int i = 0; i < height * width; i++)
            f(row + i / width, column + i % width * step, x[i], other.x[i]);
    }

    template <bool is_turned>
    __host__ __device__ void add(const operand &own, const tile<D, TILE_OTHER> &other, unsigned count)
    {
        UNROLL(4)
        for (unsigned k = 0; k < count; k++) {
            float a[height], b[width];
            for (int i = 0; i < height; i++)
                a[i] = own.get(row + i, k);
            for (int j = 0; j < width; j++)
                b[j] = is_turned ? other.get(column + j * step, k) : other.get(k, column + j * step);
            for (int i = 0; i < height; i++)
                for (int j = 0; j < width; j++)
                    x[i * width + j] = fmaf(a[i], b[j], x[i * width + j]);
        }
    }
};

// The threads of a block: `each` calls f(i) for i < count, each by one thread; `rows` calls f(team, r), each by a team
// (gpt_team.cuh); `sync` waits for all threads' accesses to shared memory. `copy` begins a copy of 16 bytes to shared
// memory, and `wait_for_copies` waits for the calling thread's.
struct host_block {
    template <enum dtype D> struct sum : chain_sum<D, 32, TILE_COLUMNS, 1> {
        __host__ sum() : chain_sum<D, 32, TILE_COLUMNS, 1>(0, 0)
        {
        }
    };

    template <typename function> __host__ void each(unsigned count, function f) const
    {
        for (unsigned i = 0; i < count; i++)
            f(i);
    }

    template <typename function> __host__ void rows(unsigned count, function f) const
    {
        for (unsigned r = 0; r < count; r++)
            f(host_team(), r);
    }

    __host__ __device__ void copy(uint4 *to, const uint4 *from) const
    {
        *to = *from;
    }

    __host__ void wait_for_copies() const
    {
    }

    __host__ void sync() const
    {
    }
};

#ifdef __CUDACC__
template <enum dtype D> struct device_sum : mma_sum<D> {
};
template <> struct device_sum<DTYPE_FP32> : chain_sum<DTYPE_FP32, 4, 4, 16> {
    __device__ device_sum() : chain_sum<DTYPE_FP32, 4, 4, 16>(threadIdx.x / 16 * 4, threadIdx.x % 16)
    {
    }
};

struct device_block {
    template <enum dtype D> using sum = device_sum<D>;

    template <typename function> __device__ void each(unsigned count, function f) const
    {
        UNROLL(4)
        for (unsigned i = threadIdx.x; i < count; i += TILE_THREADS)
            f(i);
    }

    template <typename function> __device__ void rows(unsigned count, function f) const
    {
        for (unsigned r = threadIdx.x / ROW_LANES; r < count; r += TILE_THREADS / ROW_LANES)
            f(device_team(), r);
    }

    __device__ void copy(uint4 *to, const uint4 *from) const
    {
        __pipeline_memcpy_async(to, from, sizeof *to);
    }

    __device__ void wait_for_copies() const
    {
        __pipeline_commit();
        __pipeline_wait_prior(0);
    }

    __device__ void sync() const
    {
        __syncthreads();
    }
};
#endif
