// SPDX-License-Identifier: Apache-2.0
// Compiles device code for the host: what nvcc knows by itself, for a compiler of C++. Included before each .cu file,
// in which ci/standin/launches has replaced kernel<<<blocks, threads, shared, stream>>>(arguments) by
// standin_launch(kernel, blocks, threads, shared, stream)(arguments).
#pragma once

#include "ci/standin/standin.h"

#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <cstring>
#include <tuple>
#include <type_traits>

// For other compilers than nvcc, CUDA's headers define most words without effect; shared memory needs one. A block runs
// in one thread of the host.
#undef __shared__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __CUDACC__

#define threadIdx (uint3{standin_thread()->index, 0, 0})
#define blockIdx (uint3{standin_thread()->block, 0, 0})
#define blockDim (uint3{standin_thread()->thread_count, 1, 1})
#define gridDim (uint3{standin_thread()->block_count, 1, 1})

static inline void __syncthreads()
{
    standin_meet_block();
}

static inline void __syncwarp(unsigned mask = 0xffffffff)
{
    (void)standin_meet_warp(mask, 0);
}

// The value of another lane; lane is the caller's own where the segment of width lanes does not have it.
template <typename type> static inline type standin_shuffle(unsigned mask, type value, unsigned lane)
{
    static_assert(sizeof(type) <= sizeof(uint64_t), "a shuffle moves at most 64 bits");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    if (!(mask >> lane & 1))
        standin_die("a shuffle of a kernel reads a lane that is not in its mask");
    bits = standin_meet_warp(mask, bits)[lane];
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline unsigned standin_lane()
{
    return standin_thread()->index % 32;
}

template <typename type> static inline type __shfl_sync(unsigned mask, type value, int lane, int width = 32)
{
    unsigned first = standin_lane() / (unsigned)width * (unsigned)width;
    return standin_shuffle(mask, value, first + (unsigned)lane % (unsigned)width);
}

template <typename type> static inline type __shfl_down_sync(unsigned mask, type value, unsigned by, int width = 32)
{
    unsigned lane = standin_lane(), inside = lane % (unsigned)width + by;
    return standin_shuffle(mask, value, inside < (unsigned)width ? lane + by : lane);
}

template <typename type> static inline type __shfl_xor_sync(unsigned mask, type value, int with, int width = 32)
{
    unsigned lane = standin_lane(), other = lane ^ (unsigned)with;
    return standin_shuffle(mask, value, other / (unsigned)width == lane / (unsigned)width ? other : lane);
}

static inline unsigned __ballot_sync(unsigned mask, int is_one)
{
    const uint64_t *values = standin_meet_warp(mask, is_one != 0);
    unsigned ones = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        ones |= mask >> lane & 1 ? (unsigned)values[lane] << lane : 0;
    return ones;
}

static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

// <cuda_pipeline_primitives.h>, of which all copies so far are waited for together.
#define _CUDA_PIPELINE_PRIMITIVES_H_
static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes)
{
    standin_copy_begin(to, from, bytes);
}

static inline void __pipeline_commit()
{
}

static inline void __pipeline_wait_prior(size_t)
{
    standin_copies_wait();
}

template <typename type> static inline type atomicAdd(type *at, std::common_type_t<type> value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

template <typename type> static inline type atomicMax(type *at, std::common_type_t<type> value)
{
    type before = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (before < value &&
           !__atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return before;
}

// A launch: the kernel's arguments are copied when it is asked for, and once more for each thread.
template <typename... parameters> struct standin_launched {
    void (*kernel)(parameters...);
    unsigned blocks, threads;
    std::tuple<std::decay_t<parameters>...> arguments;

    static void run_thread(void *what)
    {
        const standin_launched *launched = (standin_launched *)what;
        std::apply(launched->kernel, launched->arguments);
    }

    static void run(void *what)
    {
        standin_launched *launched = (standin_launched *)what;
        standin_count(__PRETTY_FUNCTION__);  // which names the kernel's operation
        standin_run_kernel(launched->blocks, launched->threads, run_thread, launched);
        delete launched;
    }

    static void *again(void *what)
    {
        return new standin_launched(*(standin_launched *)what);
    }
};

template <typename... parameters> struct standin_launcher {
    void (*kernel)(parameters...);
    unsigned blocks, threads;
    cudaStream_t stream;

    template <typename... arguments> void operator()(const arguments &...given) const
    {
        if (blocks == 0 || threads == 0 || threads > 1024) {
            (void)standin_status(cudaErrorInvalidConfiguration);
            return;
        }
        typedef standin_launched<parameters...> launched;
        (void)standin_enqueue(stream,
                              {launched::run, new launched{kernel, blocks, threads, {given...}}, launched::again});
    }
};

template <typename... parameters>
static inline standin_launcher<parameters...> standin_launch(void (*kernel)(parameters...), unsigned blocks,
                                                             unsigned threads, size_t, cudaStream_t stream)
{
    return {kernel, blocks, threads, stream};
}
