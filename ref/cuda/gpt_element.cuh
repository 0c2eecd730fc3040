// SPDX-License-Identifier: Apache-2.0
// The operations of gpt_kernel.h on activations for teams of threads (gpt_team.cuh), one row for each team, or for
// single threads, one element or column each. All of it also compiles for the host.
#pragma once

#include <math.h>
#include <stdint.h>

#include "ref/cuda/gpt_team.cuh"

// The value that an operand has.
BOTH float rounded(enum dtype dtype, float x)
{
    return dtype == DTYPE_FP32 ? x : dtype == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(x)) : fp16_to_f32(f32_to_fp16(x));
}

struct bias_add_operation {
    size_t width;
    const float *in;
    struct operand bias;
    float *out;

    ROW
    {
        const float *from = in + r * width;
        float *to = out + r * width;
        team.map(
            width, [&](size_t j) { return from[j]; }, [&](size_t j, float x) { to[j] = x + bias.get(j); });
    }
};

struct layernorm_forward_operation {
    size_t width;
    const float *in;
    float *stats;
    struct operand weight, bias, out;
    // bias_rows, and bias_add unless its sum is null
    size_t rows_width;
    struct operand bias_of_rows, rows, bias_of_in;
    float *sum;

    ROW
    {
        const float *from = in + r * width;
        float mean = sum_of(team, width, [&](size_t j) { return from[j]; }) / (float)width;
        float square = sum_of(team, width, [&](size_t j) { return (from[j] - mean) * (from[j] - mean); });
        float rstd = 1.0f / sqrtf(square / (float)width + 1e-5f);
        if (team.is_first()) {
            stats[2 * r] = mean;
            stats[2 * r + 1] = rstd;
        }
        team.map(
            width, [&](size_t j) { return from[j]; },
            [&](size_t j, float x) {
                out.put(r * width + j, (x - mean) * rstd * weight.get(j) + bias.get(j));
                if (sum)
                    sum[r * width + j] = x + bias_of_in.get(j);
            });
        team.each(0, rows_width, [&](size_t j) { rows.put(r * rows_width + j, bias_of_rows.get(j)); });
    }
};

struct layernorm_apply_operation {
    size_t width;
    const float *in, *stats;
    struct operand weight, bias, out;

    ROW
    {
        const float *from = in + r * width;
        float mean = stats[2 * r], rstd = stats[2 * r + 1];
        team.map(
            width, [&](size_t j) { return from[j]; },
            [&](size_t j, float x) { out.put(r * width + j, (x - mean) * rstd * weight.get(j) + bias.get(j)); });
    }
};

// Also the gradient as an operand, unless that has no data.
struct layernorm_row_operation {
    size_t width;
    const float *in, *stats;
    struct operand weight, out_gradient;
    float *in_gradient;
    bool is_first;  // in_gradient has no values yet
    struct operand rounded;

    ROW
    {
        const float *x = in + r * width;
        auto g = [&](size_t j) { return out_gradient.get(r * width + j); };
        float *to = in_gradient + r * width, mean = stats[2 * r], rstd = stats[2 * r + 1];
        float2 sums = team.sums(
            width, [&](size_t j) { return g(j) * weight.get(j); },
            [&](size_t j) { return g(j) * weight.get(j) * ((x[j] - mean) * rstd); });
        float plain = sums.x / (float)width, along = sums.y / (float)width;
        team.map(
            width,
            [&](size_t j) {
                return float3{x[j], g(j), is_first ? 0.0f : to[j]};
            },
            [&](size_t j, float3 v) {
                float normal = (v.x - mean) * rstd, sum = v.z + rstd * (v.y * weight.get(j) - plain - normal * along);
                to[j] = sum;
                if (rounded.data)
                    rounded.put(r * width + j, sum);
            });
    }
};

struct gelu_forward_operation {
    size_t width;
    struct operand in, bias, out;

    ROW
    {
        team.map(
            width, [&](size_t j) { return in.get(r * width + j); },
            [&](size_t j, float x) { out.put(r * width + j, gelu_value(x + bias.get(j))); });
    }
};

struct gelu_backward_operation {
    size_t width;
    struct operand in, gradient, bias, out, in_gradient;

    ROW
    {
        team.map(
            width,
            [&](size_t j) {
                return float2{in.get(r * width + j), gradient.get(r * width + j)};
            },
            [&](size_t j, float2 v) {
                struct gelu gelu = gelu_with_slope(v.x + bias.get(j));
                out.put(r * width + j, gelu.value);
                in_gradient.put(r * width + j, v.y * gelu.slope);
            });
    }
};

// The same for one column of a block of SUM_ROWS rows, and the sum of what it writes to in_gradient; element i is
// column i mod width of block i / width.
struct gelu_block_operation {
    size_t row_count, width;
    struct operand in, gradient, bias, out, in_gradient;
    float *sums;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        size_t first = i / width * SUM_ROWS, end = first + SUM_ROWS < row_count ? first + SUM_ROWS : row_count;
        float sum[lanes] = {0}, shift[lanes];
        load<lanes>(bias.dtype, bias.data, i % width, shift);
        UNROLL(4)
        for (size_t r = first; r < end; r++) {
            size_t at = r * width + i % width;
            float x[lanes], g[lanes], value[lanes];
            load<lanes>(in.dtype, in.data, at, x);
            load<lanes>(gradient.dtype, gradient.data, at, g);
            for (int k = 0; k < lanes; k++) {
                struct gelu gelu = gelu_with_slope(x[k] + shift[k]);
                value[k] = gelu.value;
                g[k] = g[k] * gelu.slope;
            }
            store<lanes>(out.dtype, out.data, at, value);
            store<lanes>(in_gradient.dtype, in_gradient.data, at, g);
            for (int k = 0; k < lanes; k++)
                sum[k] += rounded(in_gradient.dtype, g[k]);
        }
        store_floats<lanes>(sums, i, sum);
    }
};
