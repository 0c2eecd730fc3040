// SPDX-License-Identifier: Apache-2.0
// A GPT's loops over rows, as teams of threads run them: gpt_kernel.h's sums over a row have LANES partial sums, and a
// team has as many threads, each of which keeps one. So an element goes into the same partial sum, in the same order,
// and they are folded by the same halves: the bits are the processor's. All of it is host code, too, with a team that
// is one thread.
#ifndef ZG_GPT_ELEMENT_CUH
#define ZG_GPT_ELEMENT_CUH

#include <math.h>
#include <stdint.h>

extern "C" {
#include "ref/arithmetic/gpt_math.h"
}

enum { LANES = 16, ROW_TOKENS = 1024 };

// A row's tokens, which travel to a kernel with its arguments: ROW_TOKENS rows a launch.
struct row_tokens {
    uint16_t of[ROW_TOKENS];
};

// What a team offers: `each` calls f(j) for begin <= j < end, a given j always by the same thread; `sum` and `largest`
// are known to all its threads; after `sync` every thread has read what it wanted of the row before.
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
    unsigned lane, mask;  // the thread's in the team; the team's in the warp

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

    // As row[0] is in every thread's, a NaN there is the result, and one elsewhere never is, as on the host.
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

#define ROW template <typename team_type> __host__ __device__ void row(const team_type &team, size_t r) const

// The row becomes its exponentials relative to its largest element; the sum of them.
#pragma nv_exec_check_disable
template <typename team_type>
__host__ __device__ static inline float exponentials(const team_type &team, size_t count, float *row, float *most)
{
    float top = *most = team.largest(count, row);
    team.sync();
    team.each(0, count, [&](size_t j) { row[j] = exp_within(row[j] - top); });
    return team.sum(count, [&](size_t j) { return row[j]; });
}

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

// The gradients of weight and bias are sums over rows: a thread a column.
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
        float *to = scores + r * length, largest;
        float inverse = 1.0f / exponentials(team, r + 1, to, &largest);
        team.each(0, r + 1, [&](size_t j) { to[j] *= inverse; });
        team.each(r + 1, length, [&](size_t j) { to[j] = 0; });
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
        float common = team.sum(r + 1, [&](size_t j) { return p[j] * g[j]; });
        team.each(0, r + 1, [&](size_t j) { g[j] = p[j] * (g[j] - common); });
        team.each(r + 1, length, [&](size_t j) { g[j] = 0; });
    }
};

// What a row's loss is made of: log(sum) + largest - right.
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

// One column of all rows, in their order: where two rows have one token, the first is added first.
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
