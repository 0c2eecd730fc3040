// SPDX-License-Identifier: Apache-2.0
// The operations of gpt_kernel.h for teams of threads (gpt_team.cuh), one row for each team, or for single threads, one
// element or column each. All of it also compiles for the host.
#ifndef ZG_GPT_ELEMENT_CUH
#define ZG_GPT_ELEMENT_CUH

#include <math.h>
#include <stdint.h>

#include "ref/cuda/gpt_team.cuh"

// The tokens of a micro-batch in the memory of the threads that read them (token_rows of gpt_math.h).
struct token_list {
    const uint16_t *tokens;
    size_t sequence_count, length;

    __host__ __device__ size_t row_count() const
    {
        return sequence_count * length;
    }
    __host__ __device__ uint16_t of(size_t r) const
    {
        return tokens[r / length * (length + 1) + r % length];
    }
    __host__ __device__ uint16_t target_of(size_t r) const
    {
        return tokens[r / length * (length + 1) + r % length + 1];
    }
};

#define ROW template <typename team_type> __host__ __device__ void row(const team_type &team, size_t r) const

struct bias_add_operation {
    size_t width;
    const float *in, *bias;
    struct operand out;

#pragma nv_exec_check_disable
    ROW
    {
        const float *from = in ? in + r * width : NULL;
        team.each(0, width, [&](size_t j) { out.put(r * width + j, from ? from[j] + bias[j] : bias[j]); });
    }
};

// One column of the sum over a block of rows; element i is column i mod width of block i / width.
struct block_sum_operation {
    size_t row_count, width;
    enum dtype dtype;
    const void *in;
    float *sums;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        size_t first = i / width * SUM_ROWS, end = first + SUM_ROWS < row_count ? first + SUM_ROWS : row_count;
        float sum[lanes] = {0};
        for (size_t r = first; r < end; r++) {
            float x[lanes];
            load<lanes>(dtype, in, r * width + i % width, x);
            for (int k = 0; k < lanes; k++)
                sum[k] += x[k];
        }
        store_floats<lanes>(sums, i, sum);
    }
};

// One column of the sum over blocks.
struct sum_of_blocks_operation {
    size_t block_count, width;
    const float *sums;
    float *out;

    template <int lanes> __host__ __device__ void at(size_t j) const
    {
        float sum[lanes] = {0};
        for (size_t block = 0; block < block_count; block++) {
            float x[lanes];
            load_floats<lanes>(sums, block * width + j, x);
            for (int k = 0; k < lanes; k++)
                sum[k] += x[k];
        }
        store_floats<lanes>(out, j, sum);
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
    struct operand out;

#pragma nv_exec_check_disable
    ROW
    {
        const float *from = in + r * width;
        float mean = stats[2 * r], rstd = stats[2 * r + 1];
        team.each(0, width, [&](size_t j) { out.put(r * width + j, (from[j] - mean) * rstd * weight[j] + bias[j]); });
    }
};

// One column of the gradients of weight and bias over a block of rows, as block_sum_operation.
struct layernorm_block_operation {
    size_t row_count, width;
    const float *in, *stats, *out_gradient;
    float *weight_sums, *bias_sums;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        size_t first = i / width * SUM_ROWS, end = first + SUM_ROWS < row_count ? first + SUM_ROWS : row_count;
        float weight_sum[lanes] = {0}, bias_sum[lanes] = {0};
        for (size_t r = first; r < end; r++) {
            float x[lanes], g[lanes], mean = stats[2 * r], rstd = stats[2 * r + 1];
            load_floats<lanes>(in, r * width + i % width, x);
            load_floats<lanes>(out_gradient, r * width + i % width, g);
            for (int k = 0; k < lanes; k++) {
                weight_sum[k] += g[k] * ((x[k] - mean) * rstd);
                bias_sum[k] += g[k];
            }
        }
        store_floats<lanes>(weight_sums, i, weight_sum);
        store_floats<lanes>(bias_sums, i, bias_sum);
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
    size_t width;
    const float *in, *bias;
    struct operand out;

#pragma nv_exec_check_disable
    ROW
    {
        const float *from = in + r * width;
        team.each(0, width, [&](size_t j) { out.put(r * width + j, gelu_value(from[j] + bias[j])); });
    }
};

struct gelu_backward_operation {
    size_t width;
    const float *in, *bias, *gradient;
    struct operand out, in_gradient;

#pragma nv_exec_check_disable
    ROW
    {
        const float *from = in + r * width, *g = gradient + r * width;
        team.each(0, width, [&](size_t j) {
            struct gelu gelu = gelu_with_slope(from[j] + bias[j]);
            out.put(r * width + j, gelu.value);
            in_gradient.put(r * width + j, g[j] * gelu.slope);
        });
    }
};

struct softmax_causal_operation {
    size_t length;
    float *scores;
    struct operand out;

#pragma nv_exec_check_disable
    ROW
    {
        size_t count = r % length + 1;
        float *from = scores + r * length, largest;
        float inverse = 1.0f / exponentials(team, count, from, &largest);
        team.each(0, count, [&](size_t j) { out.put(r * length + j, from[j] * inverse); });
        team.each(count, causal_end(count - 1, length), [&](size_t j) { out.put(r * length + j, 0); });
    }
};

struct softmax_causal_backward_operation {
    size_t length;
    struct operand softmax;
    const float *gradient;
    struct operand out;

#pragma nv_exec_check_disable
    ROW
    {
        const float *g = gradient + r * length;
        size_t count = r % length + 1;
        float common = team.sum(count, [&](size_t j) { return softmax.get(r * length + j) * g[j]; });
        team.each(0, count, [&](size_t j) { out.put(r * length + j, softmax.get(r * length + j) * (g[j] - common)); });
        team.each(count, causal_end(count - 1, length), [&](size_t j) { out.put(r * length + j, 0); });
    }
};

// The terms of a row's loss, log(sum) + largest - right.
struct row_loss {
    float sum, largest, right;
};

struct crossentropy_forward_operation {
    size_t width, stride;
    float *logits;
    struct row_loss *losses;
    struct token_list list;

#pragma nv_exec_check_disable
    ROW
    {
        float *to = logits + r * stride;
        struct row_loss loss;
        loss.right = to[list.target_of(r)];
        team.sync();
        loss.sum = exponentials(team, width, to, &loss.largest);
        float inverse = 1.0f / loss.sum;
        team.each(0, width, [&](size_t j) { to[j] *= inverse; });
        if (team.is_first())
            losses[r] = loss;
    }
};

struct crossentropy_backward_operation {
    size_t width, stride;
    float scale;
    enum dtype dtype;
    float *softmax;
    struct token_list list;

#pragma nv_exec_check_disable
    ROW
    {
        size_t target = list.target_of(r);
        team.rewrite(width, softmax + r * stride, dtype,
                     [&](float p, size_t j) { return (j == target ? p - 1.0f : p) * scale; });
    }
};

struct embedding_forward_operation {
    size_t width;
    struct operand token_weight, position_weight;
    float *out;
    struct token_list list;

#pragma nv_exec_check_disable
    ROW
    {
        size_t token = list.of(r) * width, position = r % list.length * width;
        float *to = out + r * width;
        team.each(0, width, [&](size_t j) { to[j] = token_weight.get(token + j) + position_weight.get(position + j); });
    }
};

// The rows in the order of their tokens, and rows of one token ascending. `end`: one after the last row of the token if
// this is its first row, else 0.
struct sorted_row {
    uint32_t row, end;
};

// Counts the rows before row r in that order.
struct sort_rows_operation {
    struct token_list list;
    struct sorted_row *sorted;

#pragma nv_exec_check_disable
    ROW
    {
        uint16_t token = list.of(r);
        uint32_t less = team.count_of(list.row_count(), [&](size_t j) { return list.of(j) < token; });
        uint32_t before = team.count_of(r, [&](size_t j) { return list.of(j) == token; });
        uint32_t same = before > 0 ? 0 : team.count_of(list.row_count(), [&](size_t j) { return list.of(j) == token; });
        if (team.is_first())
            sorted[less + before] = {(uint32_t)r, before > 0 ? 0 : less + same};
    }
};

// One column of all rows of a token, in ascending order; element i is column i mod width of the sorted row i / width.
struct token_backward_operation {
    size_t width;
    const float *in;
    float *gradient;
    struct token_list list;
    const struct sorted_row *sorted;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        size_t first = i / width, j = i % width, end = sorted[first].end;
        if (end == 0)
            return;
        float *to = gradient + list.of(sorted[first].row) * width, sum[lanes], x[lanes];
        load_floats<lanes>(to, j, sum);
        for (size_t at = first; at < end; at++) {
            load_floats<lanes>(in, sorted[at].row * width + j, x);
            for (int k = 0; k < lanes; k++)
                sum[k] += x[k];
        }
        store_floats<lanes>(to, j, sum);
    }
};

// One element of a position, sequences ascending.
struct position_backward_operation {
    size_t sequence_count, sequence_elements;
    const float *in;
    float *gradient;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        float sum[lanes], x[lanes];
        load_floats<lanes>(gradient, i, sum);
        for (size_t s = 0; s < sequence_count; s++) {
            load_floats<lanes>(in, s * sequence_elements + i, x);
            for (int k = 0; k < lanes; k++)
                sum[k] += x[k];
        }
        store_floats<lanes>(gradient, i, sum);
    }
};

#undef ROW

#endif
