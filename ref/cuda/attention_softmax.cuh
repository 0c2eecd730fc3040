// SPDX-License-Identifier: Apache-2.0
// The softmax of a block's rows, one block of keys after the other (gpt_attention_kernel.h). Both kinds keep the rows'
// statistics; `add` takes the scores' products with one block of keys, from `key` on, of which row r attends to those
// up to first + r; it rescales what there is of out and returns p as a product's operand. `finish` divides out by the
// sums, and `each` then calls f(r, the largest score, 1 / sum). `memory` is the block's.
#pragma once

#include <math.h>

#include "ref/cuda/gpt_tile.cuh"

// By rows in shared memory, which gives the host's bits.
template <typename sum> struct chain_softmax {
    struct memory {
        typename sum::operand p;
        float s[sum::ROWS * TILE_OTHER], top[sum::ROWS], sums[sum::ROWS], rescale[sum::ROWS];
    } & shared;

#pragma nv_exec_check_disable
    template <typename block_type>
    __host__ __device__ chain_softmax(const block_type &block, memory &of_block) : shared(of_block)
    {
        block.each(sum::ROWS, [&](unsigned r) {
            shared.top[r] = -INFINITY;
            shared.sums[r] = 0;
        });
    }

#pragma nv_exec_check_disable
    template <typename block_type>
    __host__ __device__ const typename sum::operand &add(const block_type &block, sum &s, sum &o, float scale,
                                                         unsigned first, unsigned key)
    {
        s.each([&](unsigned r, unsigned c, float x) { shared.s[r * TILE_OTHER + c] = x * scale; });
        block.sync();
        block.rows(sum::ROWS, [&](const auto &team, unsigned r) {
            const unsigned attended = first + r + 1 - key, most = TILE_OTHER;
            add_row(team, r, attended < most ? attended : most);
        });
        block.sync();
        o.each([&](unsigned r, unsigned, float &x) { x *= shared.rescale[r]; });
        return shared.p;
    }

#pragma nv_exec_check_disable
    template <typename team_type> __host__ __device__ void add_row(const team_type &team, unsigned r, unsigned covered)
    {
        float *row = shared.s + r * TILE_OTHER, before = shared.top[r],
              most = team.largest(covered, [&](size_t j) { return row[j]; });
        float top = most > before ? most : before;
        float sum_of_row =
            team.sums(
                    covered, [&](size_t j) { return row[j] = exp_within(row[j] - top); }, [](size_t) { return 0.0f; })
                .x;
        team.each(0, TILE_OTHER, [&](size_t j) { shared.p.put(r, (unsigned)j, j < covered ? row[j] : 0.0f); });
        if (team.is_first()) {
            float rescale = exp_within(before - top);
            shared.rescale[r] = rescale;
            shared.top[r] = top;
            shared.sums[r] = rescale * shared.sums[r] + sum_of_row;
        }
    }

    __host__ __device__ void finish(sum &o)
    {
        o.each([&](unsigned r, unsigned, float &x) { x *= 1.0f / shared.sums[r]; });
    }

#pragma nv_exec_check_disable
    template <typename block_type, typename function>
    __host__ __device__ void each(const block_type &block, function f) const
    {
        block.each(sum::ROWS, [&](unsigned r) { f(r, shared.top[r], 1.0f / shared.sums[r]); });
    }
};

#ifdef __CUDACC__
// In registers, with the host's sums. Each of the four threads that have a row has its statistics.
template <enum dtype D> struct mma_softmax {
    struct memory {
    };
    static const unsigned all = 0xffffffffu;
    float top[2] = {-INFINITY, -INFINITY}, sums[2] = {0, 0};

    template <typename block_type> __device__ mma_softmax(const block_type &, memory &)
    {
    }

    template <typename block_type>
    __device__ const mma_sum<D> &add(const block_type &, mma_sum<D> &s, mma_sum<D> &o, float scale, unsigned first,
                                     unsigned key)
    {
        const bool is_whole = key + TILE_OTHER <= first + s.row + 1;  // every row of the warp attends to every key
        float before[2] = {top[0], top[1]}, rescale[2];
        UNROLL(32)
        for (unsigned i = 0; i < s.COUNT; i++) {
            s.x[i] = is_whole || key + s.column_of(i) <= first + s.row_of(i) ? s.x[i] * scale : -INFINITY;
            top[s.half_of(i)] = fmaxf(top[s.half_of(i)], s.x[i]);
        }
        for (unsigned half = 0; half < 2; half++) {
            for (int with = 1; with < 4; with *= 2)
                top[half] = fmaxf(top[half], __shfl_xor_sync(all, top[half], with));
            rescale[half] = exp_within(before[half] - top[half]);
        }
        UNROLL(32)
        for (unsigned i = 0; i < s.COUNT; i++) {
            float p = exp_within(s.x[i] - top[s.half_of(i)]);
            s.x[i] = is_whole || key + s.column_of(i) <= first + s.row_of(i) ? p : 0;
            o.x[i] *= rescale[s.half_of(i)];
        }
        for (unsigned half = 0; half < 2; half++)
            sums[half] = rescale[half] * sums[half] + sum_of_row(s, half);
        return s;
    }

    // A thread has two neighbouring columns of each eight: of a sum along a row, partial sums that are 16 and 8 apart.
    __device__ static float sum_of_row(const mma_sum<D> &s, unsigned half)
    {
        static_assert(s.RESULTS == 8 && ROW_LANES == 32, "two columns of each partial sum");
        float sum[2];
        for (unsigned side = 0; side < 2; side++) {
            const float *x = s.x + 2 * half + side;
            sum[side] = ((x[0] + x[16]) + (x[8] + x[24])) + ((x[4] + x[20]) + (x[12] + x[28]));
            for (int with = 2; with > 0; with /= 2)
                sum[side] += __shfl_xor_sync(all, sum[side], with);
        }
        return sum[0] + sum[1];
    }

    __device__ void finish(mma_sum<D> &o)
    {
        const float inverse[2] = {1.0f / sums[0], 1.0f / sums[1]};
        UNROLL(32)
        for (unsigned i = 0; i < o.COUNT; i++)
            o.x[i] *= inverse[o.half_of(i)];
    }

    template <typename block_type, typename function> __device__ void each(const block_type &, function f) const
    {
        const mma_sum<D> at;
        for (unsigned half = 0; half < 2; half++)
            if (at.pair == 0)
                f(at.row_of(2 * half), top[half], 1.0f / sums[half]);
    }
};
#endif
