// SPDX-License-Identifier: Apache-2.0
// The loops of a Llama over rows, in every isa_*.c like those of gpt_kernel.h.
#pragma once

#include "ref/arithmetic/gpt_kernel.h"
#include "ref/arithmetic/llama_math.h"

static void kernel_rmsnorm_stats(size_t row_count, size_t width, const float *in, float *stats)
{
    for (size_t r = 0; r < row_count; r++, in += width) {
        float square[ROW_LANES] = {0};
        LANES_ADD(square, width, in[j] * in[j]);
        stats[r] = 1.0f / sqrtf(lanes_sum(square) / (float)width + 1e-5f);
    }
}

static void kernel_rmsnorm_apply(size_t row_count, size_t width, const float *restrict in, const float *stats,
                                 enum dtype dtype, const void *operand, void *out_operand)
{
    const float *restrict weight = operand;
    float *restrict out = out_operand;
    for (size_t r = 0; r < row_count; r++, in += width, out += width) {
        float inverse = stats[r];
        for (size_t j = 0; j < width; j++)
            out[j] = in[j] * inverse * weight[j];
        kernel_operand_round(dtype, width, out, out);
    }
}

static void kernel_rmsnorm_backward(size_t row_count, size_t width, const float *restrict in, const float *stats,
                                    const void *operand, const float *restrict out_gradient,
                                    float *restrict in_gradient)
{
    const float *restrict weight = operand;
    for (size_t r = 0; r < row_count; r++, in += width, out_gradient += width, in_gradient += width) {
        float inverse = stats[r], along[ROW_LANES] = {0};
        LANES_ADD(along, width, out_gradient[j] * weight[j] * (in[j] * inverse));
        float along_mean = lanes_sum(along) / (float)width;
        for (size_t j = 0; j < width; j++)
            in_gradient[j] += inverse * (out_gradient[j] * weight[j] - in[j] * inverse * along_mean);
    }
}

// The weight's gradient in the columns [first, first + count), at most COLUMN_TILE.
static void kernel_rmsnorm_columns(size_t row_count, size_t width, size_t first, size_t count, const float *restrict in,
                                   const float *stats, const float *restrict out_gradient,
                                   float *restrict weight_gradient)
{
    memset(weight_gradient + first, 0, count * sizeof *weight_gradient);
    for (size_t block = 0; block < row_count; block += SUM_ROWS) {
        float sum[COLUMN_TILE] = {0};
        for (size_t r = block; r < block + at_most(row_count - block, SUM_ROWS); r++) {
            const float *x = in + r * width + first, *g = out_gradient + r * width + first;
            for (size_t j = 0; j < count; j++)
                sum[j] += g[j] * (x[j] * stats[r]);
        }
        for (size_t j = 0; j < count; j++)
            weight_gradient[first + j] += sum[j];
    }
}

// "x_m = (x_1 cos m theta - x_2 sin m theta, x_2 cos m theta + x_1 sin m theta)" for each pair of channels.
static void kernel_rotary_turn(const struct rotary *rotary, float sign, size_t first_row, size_t row_count, float *rows)
{
    size_t half = rotary->width / 2;
    for (size_t r = first_row; r < first_row + row_count; r++, rows += rotary->stride) {
        const float *cosines = rotary->cosines + r % rotary->length * half;
        const float *sines = rotary->sines + r % rotary->length * half;
        for (size_t head = 0; head < rotary->heads; head++) {
            float *restrict low = rows + head * rotary->width, *restrict high = low + half;
            for (size_t j = 0; j < half; j++) {
                float a = low[j], b = high[j], sine = sign * sines[j];
                low[j] = a * cosines[j] - b * sine;
                high[j] = b * cosines[j] + a * sine;
            }
        }
        kernel_operand_round(rotary->dtype, rotary->heads * rotary->width, rows, rows);
    }
}

static void kernel_swiglu_forward(size_t count, const float *restrict gate, const float *restrict up, enum dtype dtype,
                                  void *operand)
{
    float *restrict out = operand;
    for (size_t j = 0; j < count; j++)
        out[j] = gate[j] / (1.0f + exp_within(-gate[j])) * up[j];
    kernel_operand_round(dtype, count, out, out);
}

// With s = 1 / (1 + exp(-x)), silu'(x) = s + x s (1 - s), and 1 - s = exp(-x) s.
static void kernel_swiglu_backward(size_t count, enum dtype dtype, float *restrict gate, float *restrict up,
                                   float *restrict out_gradient)
{
    for (size_t j = 0; j < count; j++) {
        float x = gate[j], e = exp_within(-x), logistic = 1.0f / (1.0f + e), silu = x / (1.0f + e);
        float gradient = out_gradient[j], slope = logistic + x * logistic * (e * logistic);
        out_gradient[j] = silu * up[j];
        gate[j] = gradient * up[j] * slope;
        up[j] = gradient * silu;
    }
    kernel_operand_round(dtype, count, gate, gate);
    kernel_operand_round(dtype, count, up, up);
    kernel_operand_round(dtype, count, out_gradient, out_gradient);
}
