// SPDX-License-Identifier: Apache-2.0
// The operations of gpt_kernel.h for teams of threads (gpt_team.cuh), one row for each team, or for single threads, one
// element or column each. All of it also compiles for the host.
#ifndef ZG_GPT_ELEMENT_CUH
#define ZG_GPT_ELEMENT_CUH

#include <math.h>
#include <stdint.h>

#include "ref/cuda/gpt_team.cuh"

enum { ROW_TOKENS = 1024 };

// The tokens of up to ROW_TOKENS rows, passed to a kernel as an argument.
struct row_tokens {
    uint16_t of[ROW_TOKENS];
};

#define ROW template <typename team_type> __host__ __device__ void row(const team_type &team, size_t r) const

struct bias_add_operation {
    size_t width;
    const float *in, *bias;
    float *out;

#pragma nv_exec_check_disable
    ROW
    {
        const float *from = in ? in + r * width : NULL;
        float *to = out + r * width;
        team.each(0, width, [&](size_t j) { to[j] = from ? from[j] + bias[j] : bias[j]; });
    }
};

// One column of a sum over rows.
struct rows_sum_operation {
    size_t row_count, width;
    const float *in;
    float *out;

    template <int lanes> __host__ __device__ void at(size_t j) const
    {
        float sum = 0;
        for (size_t r = 0; r < row_count; r++)
            sum += in[r * width + j];
        out[j] = sum;
    }
};

struct layernorm_stats_operation {
    size_t width;
    const float *in;
    float *stats;

#pragma nv_exec_check_disable
    ROW
    {
        const float *from = in + r * width;
        float mean = team.sum(width, [&](size_t j) { return from[j]; }) / (float)width;
        float square = team.sum(width, [&](size_t j) { return (from[j] - mean) * (from[j] - mean); });
        if (team.is_first()) {
            stats[2 * r] = mean;
            stats[2 * r + 1] = 1.0f / sqrtf(square / (float)width + 1e-5f);
        }
    }
};

struct layernorm_apply_operation {
    size_t width;
    const float *in, *stats, *weight, *bias;
    float *out;

#pragma nv_exec_check_disable
    ROW
    {
        const float *from = in + r * width;
        float *to = out + r * width, mean = stats[2 * r], rstd = stats[2 * r + 1];
        team.each(0, width, [&](size_t j) { to[j] = (from[j] - mean) * rstd * weight[j] + bias[j]; });
    }
};

// The gradients of weight and bias are sums over rows; each thread sums one column.
struct layernorm_column_operation {
    size_t row_count, width;
    const float *in, *stats, *out_gradient;
    float *weight_gradient, *bias_gradient;

    template <int lanes> __host__ __device__ void at(size_t j) const
    {
        float weight_sum = 0, bias_sum = 0;
        for (size_t r = 0; r < row_count; r++) {
            float normal = (in[r * width + j] - stats[2 * r]) * stats[2 * r + 1];
            weight_sum += out_gradient[r * width + j] * normal;
            bias_sum += out_gradient[r * width + j];
        }
        weight_gradient[j] = weight_sum;
        bias_gradient[j] = bias_sum;
    }
};

struct layernorm_row_operation {
    size_t width;
    const float *in, *stats, *weight, *out_gradient;
    float *in_gradient;

#pragma nv_exec_check_disable
    ROW
    {
        const float *x = in + r * width, *g = out_gradient + r * width;
        float *to = in_gradient + r * width, mean = stats[2 * r], rstd = stats[2 * r + 1];
        float plain = team.sum(width, [&](size_t j) { return g[j] * weight[j]; }) / (float)width;
        float along =
            team.sum(width, [&](size_t j) { return g[j] * weight[j] * ((x[j] - mean) * rstd); }) / (float)width;
        team.each(0, width, [&](size_t j) {
            float normal = (x[j] - mean) * rstd;
            to[j] += rstd * (g[j] * weight[j] - plain - normal * along);
        });
    }
};

struct gelu_forward_operation {
    const float *in;
    float *out;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        out[i] = gelu_value(in[i]);
    }
};

struct gelu_backward_operation {
    const float *in;
    float *out, *gradient;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        struct gelu g = gelu_with_slope(in[i]);
        out[i] = g.value;
        gradient[i] *= g.slope;
    }
};

struct softmax_causal_operation {
    size_t length;
    float *scores;

#pragma nv_exec_check_disable
    ROW
    {
        size_t count = r % length + 1;
        float *to = scores + r * length, largest;
        float inverse = 1.0f / exponentials(team, count, to, &largest);
        team.each(0, count, [&](size_t j) { to[j] *= inverse; });
        team.each(count, length, [&](size_t j) { to[j] = 0; });
    }
};

struct softmax_causal_backward_operation {
    size_t length;
    const float *softmax;
    float *gradient;

#pragma nv_exec_check_disable
    ROW
    {
        const float *p = softmax + r * length;
        float *g = gradient + r * length;
        size_t count = r % length + 1;
        float common = team.sum(count, [&](size_t j) { return p[j] * g[j]; });
        team.each(0, count, [&](size_t j) { g[j] = p[j] * (g[j] - common); });
        team.each(count, length, [&](size_t j) { g[j] = 0; });
    }
};

// The terms of a row's loss, log(sum) + largest - right.
struct row_loss {
    float sum, largest, right;
};

struct crossentropy_forward_operation {
    size_t width;
    float *logits;
    struct row_loss *losses;
    struct row_tokens target;

#pragma nv_exec_check_disable
    ROW
    {
        float *to = logits + r * width;
        struct row_loss loss;
        loss.right = to[target.of[r]];
        team.sync();
        loss.sum = exponentials(team, width, to, &loss.largest);
        float inverse = 1.0f / loss.sum;
        team.each(0, width, [&](size_t j) { to[j] *= inverse; });
        if (team.is_first())
            losses[r] = loss;
    }
};

struct crossentropy_backward_operation {
    size_t width;
    float *softmax, scale;
    struct row_tokens target;

#pragma nv_exec_check_disable
    ROW
    {
        float *to = softmax + r * width;
        team.each(0, width, [&](size_t j) { to[j] = (j == target.of[r] ? to[j] - 1.0f : to[j]) * scale; });
    }
};

struct embedding_forward_operation {
    size_t width;
    const float *token_weight, *position_weight;
    float *out;
    struct row_tokens tokens;

#pragma nv_exec_check_disable
    ROW
    {
        const float *token = token_weight + tokens.of[r] * width, *position = position_weight + r * width;
        float *to = out + r * width;
        team.each(0, width, [&](size_t j) { to[j] = token[j] + position[j]; });
    }
};

// One column of all rows, in ascending order: if two rows have the same token, the first is added first.
struct embedding_backward_operation {
    size_t row_count, width;
    bool by_token;
    const float *in;
    float *gradient;
    struct row_tokens tokens;

    template <int lanes> __host__ __device__ void at(size_t j) const
    {
        for (size_t r = 0; r < row_count; r++)
            gradient[(by_token ? tokens.of[r] : r) * width + j] += in[r * width + j];
    }
};

#undef ROW

#endif
