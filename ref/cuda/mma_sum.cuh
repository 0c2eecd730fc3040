// SPDX-License-Identifier: Apache-2.0
// Sums of products of 16-bit tiles on tensor cores, in the registers of a block's threads.
#pragma once

#include "ref/cuda/gpt_team.cuh"
#include "ref/cuda/mma.cuh"
#include "ref/cuda/tile.cuh"

#ifdef __CUDACC__
template <enum dtype D> struct mma_softmax;  // attention_softmax.cuh

// A warp has 16 rows of the sums, as mma.cuh's results side by side. A thread has two of these rows; they are whole in
// the four threads whose numbers differ in the lowest two bits.
template <enum dtype D> struct mma_sum {
    enum { ROWS = 64, RESULTS = TILE_COLUMNS / 8, COUNT = 4 * RESULTS };
    struct operand {
    };
    typedef mma_softmax<D> softmax;
    float x[COUNT];
    unsigned row, group, pair;

    __device__ mma_sum() : row(threadIdx.x / 32 * 16), group(threadIdx.x % 32 / 4), pair(threadIdx.x % 4 * 2)
    {
        zero();
    }

    __device__ void zero()
    {
        for (int i = 0; i < COUNT; i++)
            x[i] = 0;
    }

    // Where sum i is; it belongs to the first or second of the thread's rows.
    __device__ static unsigned half_of(unsigned i)
    {
        return i / 2 % 2;
    }
    __device__ unsigned row_of(unsigned i) const
    {
        return row + group + half_of(i) * 8;
    }
    __device__ unsigned column_of(unsigned i) const
    {
        return i / 4 * 8 + pair + i % 2;
    }

    // The operand of the next product stays in registers.
    template <typename block_type> __device__ const mma_sum &as_operand(const block_type &, operand &) const
    {
        return *this;
    }

    template <typename function> __device__ void each(function f)
    {
        UNROLL(32)
        for (unsigned i = 0; i < COUNT; i++)
            f(row_of(i), column_of(i), x[i]);
    }

    template <typename function> __device__ void both(mma_sum &other, function f)
    {
        UNROLL(32)
        for (unsigned i = 0; i < COUNT; i++)
            f(row_of(i), column_of(i), x[i], other.x[i]);
    }

    template <bool is_turned>
    __device__ void add(const tile<D, ROWS> &own, const tile<D, TILE_OTHER> &other, unsigned count)
    {
        const unsigned lane = threadIdx.x % 32;
        const uint16_t *at = own.x + (row + lane % 16) * own.STRIDE + lane / 16 * 8;
        multiply<is_turned>(other, count, [&](unsigned k, uint32_t a[4]) { mma_load<false>(a, at + k); });
    }

    // Two results side by side are an operand of as many columns as a product's rows.
    template <bool is_turned> __device__ void add(const mma_sum &own, const tile<D, TILE_OTHER> &other, unsigned count)
    {
        multiply<is_turned>(other, count, [&](unsigned k, uint32_t a[4]) {
            for (unsigned i = 0; i < 4; i++)
                a[i] = mma_pair<D>(own.x[k / 2 + 2 * i], own.x[k / 2 + 2 * i + 1]);
        });
    }

    // left(k, a) gives what is left of the product from k on. Rows and columns beyond count are zeros, up to a multiple
    // of 16.
    template <bool is_turned, typename function>
    __device__ void multiply(const tile<D, TILE_OTHER> &other, unsigned count, function left)
    {
        const unsigned lane = threadIdx.x % 32, stride = other.STRIDE, upper = lane / 16 * 8, odd = lane / 8 % 2 * 8;
        const uint16_t *at = other.x + (is_turned ? (lane % 8 + upper) * stride + odd : lane % 16 * stride + upper);
        UNROLL(4)
        for (unsigned k = 0; k < TILE_OTHER; k += 16) {
            uint32_t a[4], b[4];
            if (k >= count)
                continue;
            left(k, a);
            UNROLL(4)
            for (unsigned result = 0; result < RESULTS; result += 2) {
                const unsigned c = result * 8;
                mma_load<!is_turned>(b, at + (is_turned ? c * stride + k : k * stride + c));
                mma_16x8x16<D>(x + 4 * result, a, b);
                mma_16x8x16<D>(x + 4 * result + 4, a, b + 2);
            }
        }
    }
};
#endif
