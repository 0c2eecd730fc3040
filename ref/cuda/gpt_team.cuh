// SPDX-License-Identifier: Apache-2.0
// Teams of threads that work on one row. A sum along a row has ROW_LANES partial sums (gpt_math.h); a team is a warp,
// each of whose threads keeps one of them. An element enters the same partial sum in the same order, and the same
// halves are folded, so the bits equal the host's. For tests on the host, a team is one thread.
#pragma once

#include "ref/cuda/array_element.cuh"

#include <stddef.h>
#include <string.h>

extern "C" {
#include "ref/arithmetic/gpt_math.h"
}

// Threads of the largest blocks.
enum { BLOCK_THREADS = 1024 };

// On a GPU, begins the loads of `count` iterations of the next loop before it waits for the first.
#ifdef __CUDA_ARCH__
#define PRAGMA(text) _Pragma(#text)
#define UNROLL(count) PRAGMA(unroll count)
#else
#define UNROLL(count)
#endif

// A matrix product's operand in the format itself.
struct operand {
    enum dtype dtype;
    void *data;

    __host__ __device__ void put(size_t i, float x) const
    {
        store<1>(dtype, data, i, &x);
    }
    __host__ __device__ float get(size_t i) const
    {
        float x[1];
        load<1>(dtype, data, i, x);
        return x[0];
    }
};

// Moves finished sums to their place.
template <int lanes> BOTH void put_sums(const struct sum_place &out, size_t i, float sum[lanes])
{
    if (out.add) {
        float before[lanes];
        load<lanes>(out.dtype, out.data, i, before);
        for (int k = 0; k < lanes; k++)
            sum[k] = before[k] + sum[k];
    }
    store<lanes>(out.dtype, out.data, i, sum);
}

// The operations of a team: `each` calls f(j) for begin <= j < end, and `map` put(j, get(j)) for j < count; what a put
// writes, no get of another j reads, so that gets may be first. `sums`, of two terms, and `largest`, of get(j) over j <
// count, return their result to all threads, which have then completed their reads; `sums_of` gives the sum of term(k,
// j) over j < count, for each k, to the first thread alone. `sums_of_chosen` calls put(j, the sum of get(i, j) over the
// chosen i < count, ascending) for j < width.
struct host_team {
    template <typename function> __host__ void each(size_t begin, size_t end, function f) const
    {
        for (size_t j = begin; j < end; j++)
            f(j);
    }

    template <typename loader, typename storer> __host__ void map(size_t count, loader get, storer put) const
    {
        for (size_t j = 0; j < count; j++)
            put(j, get(j));
    }

    template <unsigned terms, typename function>
    __host__ void sums_of(size_t count, float (&sums)[terms], function term) const
    {
        for (unsigned k = 0; k < terms; k++) {
            float lane[ROW_LANES] = {0};
            for (size_t j = 0; j < count; j++)
                lane[j % ROW_LANES] += term(k, j);
            for (int half = ROW_LANES / 2; half > 0; half /= 2)
                for (int l = 0; l < half; l++)
                    lane[l] += lane[l + half];
            sums[k] = lane[0];
        }
    }

    template <typename first, typename second> __host__ float2 sums(size_t count, first a, second b) const
    {
        float both[2];
        sums_of(count, both, [&](unsigned k, size_t j) { return k == 0 ? a(j) : b(j); });
        return {both[0], both[1]};
    }

    template <typename chooser, typename loader, typename storer>
    __host__ void sums_of_chosen(size_t count, size_t width, chooser is_chosen, loader get, storer put) const
    {
        for (size_t j = 0; j < width; j++) {
            float sum = 0;
            for (size_t i = 0; i < count; i++)
                if (is_chosen(i))
                    sum += get(i, j);
            put(j, sum);
        }
    }

    template <typename function> __host__ float largest(size_t count, function get) const
    {
        float top = get(0);
        for (size_t j = 1; j < count; j++)
            top = get(j) > top ? get(j) : top;
        return top;
    }

    __host__ bool is_first() const
    {
        return true;
    }
};

#ifdef __CUDACC__
struct device_team {
    static_assert(ROW_LANES == 32, "a team is a warp");
    static const unsigned all = 0xffffffffu;
    unsigned lane;  // index of the thread in the team

    __device__ device_team() : lane(threadIdx.x % ROW_LANES)
    {
    }

    template <typename function> __device__ void each(size_t begin, size_t end, function f) const
    {
        UNROLL(4)
        for (size_t j = begin / ROW_LANES * ROW_LANES + lane; j < end; j += ROW_LANES)
            if (j >= begin)
                f(j);
    }

    template <typename loader, typename storer> __device__ void map(size_t count, loader get, storer put) const
    {
        enum { AHEAD = 8 };
        size_t j = lane;
        for (; j + (AHEAD - 1) * ROW_LANES < count; j += AHEAD * ROW_LANES) {
            decltype(get(j)) values[AHEAD];
            for (int k = 0; k < AHEAD; k++)
                values[k] = get(j + k * ROW_LANES);
            for (int k = 0; k < AHEAD; k++)
                put(j + k * ROW_LANES, values[k]);
        }
        for (; j < count; j += ROW_LANES)
            put(j, get(j));
    }

    template <unsigned terms, typename function>
    __device__ void sums_of(size_t count, float (&sums)[terms], function term) const
    {
        for (unsigned k = 0; k < terms; k++)
            sums[k] = 0;
        UNROLL(16 / terms)
        for (size_t j = lane; j < count; j += ROW_LANES)
            for (unsigned k = 0; k < terms; k++)
                sums[k] += term(k, j);
        for (int half = ROW_LANES / 2; half > 0; half /= 2)
            for (unsigned k = 0; k < terms; k++)
                sums[k] += __shfl_down_sync(all, sums[k], (unsigned)half);
    }

    template <typename first, typename second> __device__ float2 sums(size_t count, first a, second b) const
    {
        float both[2];
        sums_of(count, both, [&](unsigned k, size_t j) { return k == 0 ? a(j) : b(j); });
        return {__shfl_sync(all, both[0], 0), __shfl_sync(all, both[1], 0)};
    }

    template <typename chooser, typename loader, typename storer>
    __device__ void sums_of_chosen(size_t count, size_t width, chooser is_chosen, loader get, storer put) const
    {
        enum { COLUMNS = 24 };  // of a thread at a time
        for (size_t first = lane; first < width + lane; first += COLUMNS * ROW_LANES) {
            float sum[COLUMNS] = {0};
            for (size_t i = 0; i < count; i += ROW_LANES) {
                unsigned chosen = __ballot_sync(all, i + lane < count && is_chosen(i + lane));
                for (; chosen != 0; chosen &= chosen - 1)
                    for (int k = 0; k < COLUMNS; k++)
                        if (first + k * ROW_LANES < width)
                            sum[k] += get(i + (size_t)__ffs((int)chosen) - 1, first + k * ROW_LANES);
            }
            for (int k = 0; k < COLUMNS; k++)
                if (first + k * ROW_LANES < width)
                    put(first + k * ROW_LANES, sum[k]);
        }
    }

    // Every thread begins with get(0), so a NaN there is the result and a NaN elsewhere is not, as on the host.
    template <typename function> __device__ float largest(size_t count, function get) const
    {
        float top = get(0);
        UNROLL(8)
        for (size_t j = lane; j < count; j += ROW_LANES) {
            float x = get(j);
            top = x > top ? x : top;
        }
        for (int half = ROW_LANES / 2; half > 0; half /= 2) {
            float other = __shfl_xor_sync(all, top, half);
            top = other > top ? other : top;
        }
        return top;
    }

    __device__ bool is_first() const
    {
        return lane == 0;
    }
};
#endif

#pragma nv_exec_check_disable
template <typename team_type, typename function>
__host__ __device__ static inline float sum_of(const team_type &team, size_t count, function term)
{
    return team.sums(count, term, [](size_t) { return 0.0f; }).x;
}

// An operation on row r.
#define ROW                                                                                                            \
    _Pragma("nv_exec_check_disable") template <typename team_type>                                                     \
    __host__ __device__ void row(const team_type &team, size_t r) const
