// SPDX-License-Identifier: Apache-2.0
// Tiles in shared memory and their products, for the threads of a block. The products' operands are tiles of TILE_OWN
// and TILE_OTHER rows; their sums stay in the threads' registers. In fp32, and on the host in every format, an element
// is one chain of fused multiply-adds, which gives the host's bits (ref/arithmetic/matmul.h); a GPU multiplies
// 16-bit operands on tensor cores, whose sums have an order of their own. For tests on the host a block is one thread.
#pragma once

#include "ref/cuda/gpt_team.cuh"
#include "ref/cuda/mma.cuh"

enum { TILE_OWN = 32, TILE_OTHER = 64, TILE_COLUMNS = 64, TILE_THREADS = 128 };

template <enum dtype D> struct tile_element {
    typedef uint16_t type;
};
template <> struct tile_element<DTYPE_FP32> {
    typedef float type;
};

// Operands, in rows whose distance keeps the accesses of a warp in different banks.
template <enum dtype D, int rows> struct alignas(16) tile {
    typedef typename tile_element<D>::type element;
    enum { ROWS = rows, STRIDE = D == DTYPE_FP32 ? TILE_COLUMNS + 1 : TILE_COLUMNS + 8, WIDE_COLUMNS = 8 };
    element x[rows * STRIDE];

    __host__ __device__ float get(unsigned r, unsigned c) const
    {
        float value[1];
        load<1>(D, x, r * STRIDE + c, value);
        return value[0];
    }
    __host__ __device__ void put(unsigned r, unsigned c, float value)
    {
        store<1>(D, x, r * STRIDE + c, &value);
    }
};

// Rows of operands in global memory; wide: rows begin where 16 bytes can be loaded, and columns are whole such loads.
template <enum dtype D> struct tile_source {
    const typename tile_element<D>::type *data;
    size_t stride;
    bool is_wide;
};

// Rows and columns that the source does not have are 0.
#pragma nv_exec_check_disable
template <typename block_type, enum dtype D, int rows>
__host__ __device__ static inline void tile_fill(const block_type &block, tile<D, rows> &to, struct tile_source<D> from,
                                                 size_t row_count, size_t column_count)
{
    typedef typename tile_element<D>::type element;
    if (D != DTYPE_FP32 && from.is_wide) {
        const unsigned wide = tile<D, rows>::WIDE_COLUMNS, loads = TILE_COLUMNS / wide;
        block.each(rows * loads, [&](unsigned i) {
            unsigned r = i / loads, c = i % loads * wide;
            uint4 value = {0, 0, 0, 0};
            if (r < row_count && c < column_count)
                value = *(const uint4 *)(from.data + r * from.stride + c);
            *(uint4 *)(to.x + r * tile<D, rows>::STRIDE + c) = value;
        });
        return;
    }
    block.each(rows * TILE_COLUMNS, [&](unsigned i) {
        unsigned r = i / TILE_COLUMNS, c = i % TILE_COLUMNS;
        to.x[r * tile<D, rows>::STRIDE + c] =
            r < row_count && c < column_count ? from.data[r * from.stride + c] : (element)0;
    });
}

// The sums of TILE_OWN x TILE_COLUMNS elements, of which a thread has `height` rows from `row` on and `width` columns
// from `column` on, `step` apart. add: += own other, or with is_turned own other^T, over k ascending.
template <enum dtype D, int height, int width, int step> struct chain_sum {
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
    __host__ __device__ void add(const tile<D, TILE_OWN> &own, const tile<D, TILE_OTHER> &other, unsigned count)
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
// (gpt_team.cuh); `sync` waits for all threads' accesses to shared memory.
struct host_block {
    template <enum dtype D> struct sum : chain_sum<D, TILE_OWN, TILE_COLUMNS, 1> {
        __host__ sum() : chain_sum<D, TILE_OWN, TILE_COLUMNS, 1>(0, 0)
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

    __host__ void sync() const
    {
    }
};

#ifdef __CUDACC__
// A warp has 16 rows and 32 columns of the sums, as four of mma.cuh's results side by side.
template <enum dtype D> struct mma_sum {
    enum { RESULTS = 4 };
    float x[4 * RESULTS];
    unsigned row, column, group, pair;

    __device__ mma_sum()
        : row(threadIdx.x / 32 % 2 * 16), column(threadIdx.x / 64 * 32), group(threadIdx.x % 32 / 4),
          pair(threadIdx.x % 4 * 2)
    {
        zero();
    }

    __device__ void zero()
    {
        for (int i = 0; i < 4 * RESULTS; i++)
            x[i] = 0;
    }

    template <typename function> __device__ void each(function f)
    {
        UNROLL(16)
        for (unsigned i = 0; i < 4 * RESULTS; i++)
            f(row + group + i % 4 / 2 * 8, column + i / 4 * 8 + pair + i % 2, x[i]);
    }

    template <typename function> __device__ void both(mma_sum &other, function f)
    {
        UNROLL(16)
        for (unsigned i = 0; i < 4 * RESULTS; i++)
            f(row + group + i % 4 / 2 * 8, column + i / 4 * 8 + pair + i % 2, x[i], other.x[i]);
    }

    // Rows and columns beyond count are zeros, up to a multiple of 16.
    template <bool is_turned>
    __device__ void add(const tile<D, TILE_OWN> &own, const tile<D, TILE_OTHER> &other, unsigned count)
    {
        for (unsigned k = 0; k < count; k += 16) {
            uint32_t a[4], b[2];
            for (unsigned i = 0; i < 4; i++)
                a[i] = *(const uint32_t *)(own.x + (row + group + i % 2 * 8) * own.STRIDE + k + pair + i / 2 * 8);
            UNROLL(4)
            for (unsigned result = 0; result < RESULTS; result++) {
                unsigned c = column + result * 8 + group;
                for (unsigned i = 0; i < 2; i++) {
                    unsigned r = k + pair + i * 8;
                    b[i] = is_turned
                               ? *(const uint32_t *)(other.x + c * other.STRIDE + r)
                               : other.x[r * other.STRIDE + c] | (uint32_t)other.x[(r + 1) * other.STRIDE + c] << 16;
                }
                mma_16x8x16<D>(x + 4 * result, a, b);
            }
        }
    }
};

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

    __device__ void sync() const
    {
        __syncthreads();
    }
};
#endif
