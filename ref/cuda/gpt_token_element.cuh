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

// Replaces the row of logits that begins at element `first`, in a team, with its gradient.
#pragma nv_exec_check_disable
template <typename team_type>
BOTH void logits_gradient(const team_type &team, size_t width, const struct operand &logits, size_t first,
                          size_t target, float largest, float inverse, float scale)
{
    team.map(
        width, [&](size_t j) { return logits.get(first + j); },
        [&](size_t j, float x) {
            float p = exp_within(x - largest) * inverse;
            logits.put(first + j, (j == target ? p - 1.0f : p) * scale);
        });
}

// Rows of at least this many logits have a block of threads each.
enum { LONG_ROW = 4 * BLOCK_THREADS };

#ifdef __CUDACC__
// The threads of a whole block, for a row so long that those of more rows would not fit into the cache together: what
// the first pass over it has read, the next ones find there. The partial sums are the first warp's.
struct device_row_block {
    static const size_t PART = 4 * BLOCK_THREADS;
    struct memory {
        float part[PART];
    } & shared;

    template <typename function> __device__ float largest(size_t count, function get) const
    {
        float top = get(0);
        UNROLL(8)
        for (size_t j = threadIdx.x; j < count; j += BLOCK_THREADS) {
            float x = get(j);
            top = x > top ? x : top;
        }
        shared.part[threadIdx.x] = top;
        __syncthreads();
        top = device_team().largest(BLOCK_THREADS, [&](size_t j) { return shared.part[j]; });
        __syncthreads();
        return top;
    }

    template <typename function> __device__ float sum(size_t count, function term) const
    {
        float sum = 0;
        for (size_t first = 0; first < count; first += PART) {
            const size_t part = count - first < PART ? count - first : PART;
            UNROLL(4)
            for (size_t j = threadIdx.x; j < part; j += BLOCK_THREADS)
                shared.part[j] = term(first + j);
            __syncthreads();
            UNROLL(8)
            for (size_t j = threadIdx.x; j < part && threadIdx.x < ROW_LANES; j += ROW_LANES)
                sum += shared.part[j];
            __syncthreads();
        }
        if (threadIdx.x < ROW_LANES)
            shared.part[threadIdx.x] = sum;
        __syncthreads();
        return device_team()
            .sums(
                ROW_LANES, [&](size_t j) { return shared.part[j]; }, [](size_t) { return 0.0f; })
            .x;
    }

    template <typename loader, typename storer> __device__ void map(size_t count, loader get, storer put) const
    {
        UNROLL(4)
        for (size_t j = threadIdx.x; j < count; j += BLOCK_THREADS)
            put(j, get(j));
    }

    __device__ bool is_first() const
    {
        return threadIdx.x == 0;
    }
};

template <typename function>
__device__ static inline float sum_of(const device_row_block &block, size_t count, function term)
{
    return block.sum(count, term);
}
#endif

struct crossentropy_forward_operation {
    size_t width, stride;
    struct operand logits;
    float *stats;
    struct row_loss *losses;
    struct token_list list;
    float scale;

    ROW
    {
        const size_t first = r * stride, target = list.target_of((uint32_t)r);
        auto logit = [&](size_t j) { return logits.get(first + j); };
        float largest = team.largest(width, logit), right = logit(target);
        float sum = sum_of(team, width, [&](size_t j) { return exp_within(logit(j) - largest); });
        if (team.is_first()) {
            stats[2 * r] = largest;
            stats[2 * r + 1] = 1.0f / sum;
            losses[r] = {sum, largest, right};
        }
        if (scale != 0.0f)
            logits_gradient(team, width, logits, first, target, largest, 1.0f / sum, scale);
    }
};

struct crossentropy_backward_operation {
    size_t width, stride;
    struct operand logits;
    const float *stats;
    float scale;
    struct token_list list;

    ROW
    {
        logits_gradient(team, width, logits, r * stride, list.target_of((uint32_t)r), stats[2 * r], stats[2 * r + 1],
                        scale);
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

// One token's row of the table.
struct token_sums_operation {
    size_t width, first_token;
    const float *in;
    struct token_list list;
    struct sum_place out;

    ROW
    {
        const uint32_t stride = list.length + 1;
        team.sums_of_chosen(
            list.sequence_count * (size_t)stride, width,
            [&](size_t i) { return list.tokens[i] == first_token + r && (uint32_t)i % stride < list.length; },
            [&](size_t i, size_t j) {
                return in[((uint32_t)i / stride * list.length + (uint32_t)i % stride) * width + j];
            },
            [&](size_t j, float sum) { put_sums<1>(out, r * width + j, &sum); });
    }
};

// One element of a position, sequences ascending.
struct position_sums_operation {
    size_t sequence_count, sequence_elements;
    const float *in;
    struct sum_place out;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        float sum[lanes] = {0}, x[lanes];
        for (size_t s = 0; s < sequence_count; s++) {
            load_floats<lanes>(in, s * sequence_elements + i, x);
            for (int k = 0; k < lanes; k++)
                sum[k] += x[k];
        }
        put_sums<lanes>(out, i, sum);
    }
};
