// SPDX-License-Identifier: Apache-2.0
// The part of one thread in a loop over arrays: applies dtype_element.h, norm.h and recipe.h to four neighbouring
// elements at a time if every array is aligned for that, else to one. All of it also compiles for the host, which can
// run any number of such threads one after the other and compare their bits.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/norm.h"
}

#define BOTH __host__ __device__ static inline

enum { WIDE = 4, FOLD_INPUTS = 64 };

// A thread has memory between operations for results, for sums that wait (block_sums.cuh), and for tokens.
enum scratch { SCRATCH_RESULTS, SCRATCH_SUMS, SCRATCH_TOKENS, SCRATCH_COUNT };

// The index of a thread among the threads that share a loop, and their number.
struct grid_position {
    size_t index, count;
};

// Runs the thread's part of a loop over count elements: WIDE elements at a time, then the rest one by one.
template <typename operation> BOTH void each(operation &o, struct grid_position position, size_t count, bool wide)
{
    size_t groups = wide ? count / WIDE : 0;
    for (size_t group = position.index; group < groups; group += position.count)
        o.template at<WIDE>(group * WIDE);
    for (size_t i = groups * WIDE + position.index; i < count; i += position.count)
        o.template at<1>(i);
}

// Returns whether the alignment allows loads of WIDE elements.
BOTH bool is_wide(enum dtype dtype, const void *values)
{
    return (uintptr_t)values % (WIDE * dtype_bytes(dtype)) == 0;
}

template <int lanes> BOTH void load_bits(const uint16_t *values, size_t i, uint16_t out[lanes])
{
    if constexpr (lanes == WIDE) {
        ushort4 four = *(const ushort4 *)(values + i);
        out[0] = four.x;
        out[1] = four.y;
        out[2] = four.z;
        out[3] = four.w;
    } else {
        out[0] = values[i];
    }
}

template <int lanes> BOTH void load_floats(const float *values, size_t i, float out[lanes])
{
    if constexpr (lanes == WIDE) {
        float4 four = *(const float4 *)(values + i);
        out[0] = four.x;
        out[1] = four.y;
        out[2] = four.z;
        out[3] = four.w;
    } else {
        out[0] = values[i];
    }
}

// Loads values[i] and the following ones, widened to fp32.
template <int lanes> BOTH void load(enum dtype dtype, const void *values, size_t i, float out[lanes])
{
    if (dtype == DTYPE_FP32) {
        load_floats<lanes>((const float *)values, i, out);
        return;
    }
    uint16_t bits[lanes];
    load_bits<lanes>((const uint16_t *)values, i, bits);
    for (int k = 0; k < lanes; k++) {
        struct bf16 brain = {bits[k]};
        struct fp16 half = {bits[k]};
        out[k] = dtype == DTYPE_BF16 ? bf16_to_f32(brain) : fp16_to_f32(half);
    }
}

template <int lanes> BOTH void store_floats(float *values, size_t i, const float in[lanes])
{
    if constexpr (lanes == WIDE)
        *(float4 *)(values + i) = make_float4(in[0], in[1], in[2], in[3]);
    else
        values[i] = in[0];
}

template <int lanes> BOTH void store_bits(uint16_t *values, size_t i, const uint16_t in[lanes])
{
    if constexpr (lanes == WIDE)
        *(ushort4 *)(values + i) = make_ushort4(in[0], in[1], in[2], in[3]);
    else
        values[i] = in[0];
}

// Stores values[i] and the following ones, rounded to the format.
template <int lanes> BOTH void store(enum dtype dtype, void *values, size_t i, const float in[lanes])
{
    if (dtype == DTYPE_FP32) {
        store_floats<lanes>((float *)values, i, in);
        return;
    }
    uint16_t bits[lanes];
    for (int k = 0; k < lanes; k++)
        bits[k] = dtype == DTYPE_BF16 ? f32_to_bf16(in[k]).bits : f32_to_fp16(in[k]).bits;
    store_bits<lanes>((uint16_t *)values, i, bits);
}

// dtype_fold_groups; with one group it is dtype_fold, with one input a conversion, and with one input and `add` an
// accumulation.
template <enum dtype in_dtype> struct fold_operation {
    const void *some[FOLD_INPUTS];  // up to FOLD_INPUTS inputs
    const void *const *many;        // more inputs; else null
    int world, group;
    enum dtype out_dtype;
    void *out;
    bool add;

    // Sums the inputs of the group that begins at in[0].
    template <int lanes> __host__ __device__ void sum_group(const void *const *in, size_t i, float sum[lanes]) const
    {
        load<lanes>(in_dtype, in[0], i, sum);
        for (int rank = 1; rank < group; rank++) {
            float term[lanes];
            load<lanes>(in_dtype, in[rank], i, term);
            for (int k = 0; k < lanes; k++)
                sum[k] = sum[k] + term[k];
        }
    }

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        const void *const *in = many ? many : some;
        float sum[lanes];
        sum_group<lanes>(in, i, sum);
        for (int first = group; first < world; first += group) {
            float of_group[lanes];
            sum_group<lanes>(in + first, i, of_group);
            for (int k = 0; k < lanes; k++)
                sum[k] = sum[k] + of_group[k];
        }
        if (add) {
            float before[lanes];
            load<lanes>(out_dtype, out, i, before);
            for (int k = 0; k < lanes; k++)
                sum[k] = before[k] + sum[k];
        }
        store<lanes>(out_dtype, out, i, sum);
    }
};

// adam_update, for elements that all lie in the tensor's body or all in its tail.
template <recipe_family family, recipe_fusion fusion> struct adam_operation {
    struct adam_step step;
    float reciprocal;  // of the divisor
    bool divides;      // instead of multiplying by the reciprocal

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        float g[lanes], p[lanes], m[lanes], v[lanes];
        load<lanes>(step.grad_dtype, step.grad, i, g);
        load_floats<lanes>(step.param, i, p);
        load_floats<lanes>(step.exp_avg, i, m);
        load_floats<lanes>(step.exp_avg_sq, i, v);
        for (int k = 0; k < lanes; k++) {
            float mean = divides ? g[k] / step.grad_divisor : g[k] * reciprocal;
            recipe_family_element(family, fusion, &step.scalars, mean * step.grad_coefficient, &p[k], &m[k], &v[k]);
        }
        store_floats<lanes>(step.param, i, p);
        store_floats<lanes>(step.exp_avg, i, m);
        store_floats<lanes>(step.exp_avg_sq, i, v);
        if (step.model_params)
            store<lanes>(step.model_dtype, step.model_params, i, p);
    }
};

BOTH bool is_wide_step(const struct adam_step *step)
{
    return is_wide(step->grad_dtype, step->grad) && is_wide(DTYPE_FP32, step->param) &&
           is_wide(DTYPE_FP32, step->exp_avg) && is_wide(DTYPE_FP32, step->exp_avg_sq) &&
           (!step->model_params || is_wide(step->model_dtype, step->model_params));
}

// The loads and stores of an optimizer step with almost no arithmetic: the baseline of the step. It permutes the state
// arrays and mixes the gradient's bits into v, so that the compiler can drop no byte.
struct mix_operation {
    struct adam_step step;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        float g[lanes], p[lanes], m[lanes], v[lanes];
        load<lanes>(step.grad_dtype, step.grad, i, g);
        load_floats<lanes>(step.param, i, p);
        load_floats<lanes>(step.exp_avg, i, m);
        load_floats<lanes>(step.exp_avg_sq, i, v);
        store_floats<lanes>(step.param, i, m);
        store_floats<lanes>(step.exp_avg, i, v);
        for (int k = 0; k < lanes; k++)
            v[k] = f32_of_bits(f32_bits(p[k]) ^ f32_bits(g[k]));
        store_floats<lanes>(step.exp_avg_sq, i, v);
        if (step.model_params)
            store<lanes>(step.model_dtype, step.model_params, i, p);
    }
};

// Arrays that one launch reads (norm_max_of). On a GPU the blocks from end[i - 1] to before end[i] read array i.
enum { NORM_RANGES = 64 };
struct norm_ranges {
    struct norm_range at[NORM_RANGES];
    unsigned end[NORM_RANGES];
    int count;
};

// The encoding of the largest magnitude, in the values' format, in which encodings order as magnitudes do.
struct norm_max_operation {
    enum dtype dtype;
    const void *values;
    uint32_t max;

    template <int lanes> __host__ __device__ void at(size_t i)
    {
        if (dtype == DTYPE_FP32) {
            float x[lanes];
            load_floats<lanes>((const float *)values, i, x);
            for (int k = 0; k < lanes; k++)
                take(f32_bits(x[k]) & 0x7fffffffu);
        } else {
            uint16_t x[lanes];
            load_bits<lanes>((const uint16_t *)values, i, x);
            for (int k = 0; k < lanes; k++)
                take(x[k] & 0x7fffu);
        }
    }

    __host__ __device__ void take(uint32_t bits)
    {
        max = bits > max ? bits : max;
    }
};

BOTH uint32_t norm_max_as_fp32(enum dtype dtype, uint32_t bits)
{
    struct bf16 brain = {(uint16_t)bits};
    struct fp16 half = {(uint16_t)bits};
    return dtype == DTYPE_FP32 ? bits : f32_bits(dtype == DTYPE_BF16 ? bf16_to_f32(brain) : fp16_to_f32(half));
}

BOTH uint64_t f64_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Sums squares as integers, in any order: adding 2^k, which is larger than any square, rounds a square to the fixed
// point and leaves it in the low bits.
struct norm_operation {
    enum dtype dtype;
    const void *values;
    double two_k;
    struct norm_sum sum;

    template <int lanes> __host__ __device__ void at(size_t i)
    {
        float x[lanes];
        load<lanes>(dtype, values, i, x);
        for (int k = 0; k < lanes; k++) {
            struct norm_sum square = {f64_bits(fma((double)x[k], (double)x[k], two_k)) - f64_bits(two_k), 0};
            norm_add(&sum, square);
        }
    }
};
