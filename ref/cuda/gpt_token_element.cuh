// SPDX-License-Identifier: Apache-2.0
// The operations of gpt_kernel.h on tokens, embeddings and losses, as gpt_element.cuh.
#pragma once

#include "ref/cuda/gpt_team.cuh"

#include <stdint.h>

// The tokens of a micro-batch in the memory of the threads that read them (token_rows of gpt_math.h): less than 2^32.
struct token_list {
    const uint16_t *tokens;
    uint32_t sequence_count, length;

    __host__ __device__ uint32_t row_count() const
    {
        return sequence_count * length;
    }
    __host__ __device__ const uint16_t *at(uint32_t r) const
    {
        return tokens + r / length * (size_t)(length + 1) + r % length;
    }
    __host__ __device__ uint16_t of(uint32_t r) const
    {
        return at(r)[0];
    }
    __host__ __device__ uint16_t target_of(uint32_t r) const
    {
        return at(r)[1];
    }
};

// The terms of a row's loss, log(sum) + largest - right.
struct row_loss {
    float sum, largest, right;
};

// Replaces a row of logits, in a team, with its gradient.
#pragma nv_exec_check_disable
template <typename team_type>
BOTH void logits_gradient(const team_type &team, size_t width, float *row, size_t target, float largest, float inverse,
                          float scale, enum dtype dtype)
{
    team.rewrite(width, row, dtype, [&](float x, size_t j) {
        float p = exp_within(x - largest) * inverse;
        return (j == target ? p - 1.0f : p) * scale;
    });
}

struct crossentropy_forward_operation {
    size_t width, stride;
    float *logits, *stats;
    struct row_loss *losses;
    struct token_list list;
    float scale;
    enum dtype dtype;

    ROW
    {
        float *from = logits + r * stride;
        size_t target = list.target_of((uint32_t)r);
        float largest = team.largest(width, from), right = from[target];
        float sum = sum_of(team, width, [&](size_t j) { return exp_within(from[j] - largest); });
        if (team.is_first()) {
            stats[2 * r] = largest;
            stats[2 * r + 1] = 1.0f / sum;
            losses[r] = {sum, largest, right};
        }
        if (scale != 0.0f)
            logits_gradient(team, width, from, target, largest, 1.0f / sum, scale, dtype);
    }
};

struct crossentropy_backward_operation {
    size_t width, stride;
    const float *stats;
    float scale;
    enum dtype dtype;
    float *logits;
    struct token_list list;

    ROW
    {
        logits_gradient(team, width, logits + r * stride, list.target_of((uint32_t)r), stats[2 * r], stats[2 * r + 1],
                        scale, dtype);
    }
};

struct embedding_forward_operation {
    size_t width;
    struct operand token_weight, position_weight;
    float *out;
    struct token_list list;

    ROW
    {
        size_t token = list.of((uint32_t)r) * width, position = r % list.length * width;
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

    ROW
    {
        uint32_t row = (uint32_t)r, all = list.row_count();
        uint16_t token = list.of(row);
        uint32_t less = team.count_of(all, [&](size_t j) { return list.of((uint32_t)j) < token; });
        uint32_t before = team.count_of(row, [&](size_t j) { return list.of((uint32_t)j) == token; });
        uint32_t same = before > 0 ? 0 : team.count_of(all, [&](size_t j) { return list.of((uint32_t)j) == token; });
        if (team.is_first())
            sorted[less + before] = {row, before > 0 ? 0 : less + same};
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
        float *to = gradient + list.of(sorted[first].row) * width, sum[lanes];
        load_floats<lanes>(to, j, sum);
        UNROLL(8)
        for (size_t at = first; at < end; at++) {
            float x[lanes];
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
