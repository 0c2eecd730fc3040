// SPDX-License-Identifier: Apache-2.0
// Teams of threads that work on one row. gpt_kernel.h sums a row in LANES partial sums; a team has LANES threads, each
// of which keeps one of them. An element enters the same partial sum in the same order, and the same halves are folded,
// so the bits equal the host's. For tests on the host, a team is one thread.
#ifndef ZG_GPT_TEAM_CUH
#define ZG_GPT_TEAM_CUH

#include <stddef.h>

extern "C" {
#include "ref/arithmetic/gpt_math.h"
}

enum { LANES = 16 };

// The operations of a team: `each` calls f(j) for begin <= j < end, always on the same thread for the same j; `sum` and
// `largest` return their result to all threads; after `sync`, all threads have completed their earlier reads of the
// row.
struct host_team {
    template <typename function> __host__ void each(size_t begin, size_t end, function f) const
    {
        for (size_t j = begin; j < end; j++)
            f(j);
    }

    template <typename function> __host__ float sum(size_t count, function term) const
    {
        float lane[LANES] = {0};
        for (size_t j = 0; j < count; j++)
            lane[j % LANES] += term(j);
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int l = 0; l < half; l++)
                lane[l] += lane[l + half];
        return lane[0];
    }

    __host__ float largest(size_t count, const float *row) const
    {
        float top = row[0];
        for (size_t j = 1; j < count; j++)
            top = row[j] > top ? row[j] : top;
        return top;
    }

    __host__ void sync() const
    {
    }

    __host__ bool is_first() const
    {
        return true;
    }
};

#ifdef __CUDACC__
struct device_team {
    unsigned lane, mask;  // index of the thread in the team; lanes of the team in the warp

    __device__ device_team() : lane(threadIdx.x % LANES), mask(0xffffu << (threadIdx.x % 32 / LANES * LANES))
    {
    }

    template <typename function> __device__ void each(size_t begin, size_t end, function f) const
    {
        for (size_t j = begin / LANES * LANES + lane; j < end; j += LANES)
            if (j >= begin)
                f(j);
    }

    template <typename function> __device__ float sum(size_t count, function term) const
    {
        float mine = 0;
        for (size_t j = lane; j < count; j += LANES)
            mine += term(j);
        for (int half = LANES / 2; half > 0; half /= 2)
            mine += __shfl_down_sync(mask, mine, half, LANES);
        return __shfl_sync(mask, mine, 0, LANES);
    }

    // Every thread begins with row[0], so a NaN there is the result and a NaN elsewhere is not, as on the host.
    __device__ float largest(size_t count, const float *row) const
    {
        float top = row[0];
        for (size_t j = lane; j < count; j += LANES)
            top = row[j] > top ? row[j] : top;
        for (int half = LANES / 2; half > 0; half /= 2) {
            float other = __shfl_xor_sync(mask, top, half, LANES);
            top = other > top ? other : top;
        }
        return top;
    }

    __device__ void sync() const
    {
        __syncwarp(mask);
    }

    __device__ bool is_first() const
    {
        return lane == 0;
    }
};
#endif

// Replaces row with its exponentials relative to its largest element, which goes to *most; returns their sum.
#pragma nv_exec_check_disable
template <typename team_type>
__host__ __device__ static inline float exponentials(const team_type &team, size_t count, float *row, float *most)
{
    float top = *most = team.largest(count, row);
    team.sync();
    team.each(0, count, [&](size_t j) { row[j] = exp_within(row[j] - top); });
    return team.sum(count, [&](size_t j) { return row[j]; });
}

#endif
