// SPDX-License-Identifier: Apache-2.0
// A residual stream's gradient and the sums over rows that go with it (stream_backward of gpt_math.h), in one launch: a
// block of threads has SUM_ROWS rows, of which its teams make some, and while these are near, its threads add them to
// the sums of columns.
#pragma once

#include "ref/cuda/block_sums.cuh"
#include "ref/cuda/gpt_element.cuh"

// Of a row all but sums; of a column the sums over a block, whose rows come in parts, ascending, when they are made.
struct stream_operation {
    size_t row_count, width;
    const float *gradient;
    layernorm_row_operation norm;  // without `in`: none
    float *weight_sums, *bias_sums;
    struct operand rounded;  // without data: none
    float *sums;             // null: none
    layernorm_apply_operation again;
    size_t other_width;
    struct operand other;
    float *other_sums;

    ROW
    {
        if (norm.in)
            norm.row(team, r);
        else if (rounded.data != gradient && rounded.data)
            team.map(
                width, [&](size_t j) { return gradient[r * width + j]; },
                [&](size_t j, float x) { rounded.put(r * width + j, x); });
        if (again.in)
            again.row(team, r);
    }

    __host__ __device__ size_t columns() const
    {
        return width > other_width ? width : other_width;
    }

    // Column j of rows from r on.
    __host__ __device__ void column(size_t j, size_t r, size_t end) const
    {
        if (norm.in && j < width)
            add_norm(j, r, end);
        if (sums && j < width)
            add(rounded, width, j, r, end, sums);
        if (j < other_width)
            add(other, other_width, j, r, end, other_sums);
    }

    __host__ __device__ static void add(const struct operand &in, size_t width, size_t j, size_t r, size_t end,
                                        float *sums)
    {
        float &out = sums[r / SUM_ROWS * width + j], sum = r % SUM_ROWS > 0 ? out : 0;
        UNROLL(8)
        for (; r < end; r++)
            sum += in.get(r * width + j);
        out = sum;
    }

    __host__ __device__ void add_norm(size_t j, size_t r, size_t end) const
    {
        const size_t at = r / SUM_ROWS * width + j;
        float weight_sum = r % SUM_ROWS > 0 ? weight_sums[at] : 0, bias_sum = r % SUM_ROWS > 0 ? bias_sums[at] : 0;
        UNROLL(8)
        for (; r < end; r++) {
            float g = norm.out_gradient.get(r * width + j), mean = norm.stats[2 * r], rstd = norm.stats[2 * r + 1];
            weight_sum += g * ((norm.in[r * width + j] - mean) * rstd);
            bias_sum += g;
        }
        weight_sums[at] = weight_sum;
        bias_sums[at] = bias_sum;
    }
};

#ifdef __CUDACC__
template <typename operation>
__global__ void __launch_bounds__(BLOCK_THREADS) stream_kernel(const __grid_constant__ operation o)
{
    const device_team team;
    const size_t teams = BLOCK_THREADS / ROW_LANES, first = blockIdx.x * (size_t)SUM_ROWS;
    const size_t end = o.row_count < first + SUM_ROWS ? o.row_count : first + SUM_ROWS;
    for (size_t r = first; r < end; r += teams) {
        const size_t own = r + threadIdx.x / ROW_LANES, part_end = end < r + teams ? end : r + teams;
        if (own < part_end)
            o.row(team, own);
        __syncthreads();
        for (size_t j = threadIdx.x; j < o.columns(); j += BLOCK_THREADS)
            o.column(j, r, part_end);
    }
}
#endif

// Entries of struct isa_kernels, as gpt_kernels.cuh has the others.
template <typename where> struct stream_kernels {
    static void rows_sum(size_t row_count, size_t width, enum dtype dtype, const void *from, float *sum,
                         const struct sum_place *place)
    {
        struct stream_parts parts = {};
        parts.other = from;
        parts.other_width = width;
        parts.other_place = place ? *place : sum_place{};
        stream_backward(row_count, 0, dtype, NULL, sum, &parts);
    }

    static void stream_backward(size_t row_count, size_t width, enum dtype dtype, float *gradient, float *sums,
                                const struct stream_parts *p)
    {
        const struct norm_back &norm = p->norm;
        const struct norm_rows &again = p->again;
        const bool has_norm = norm.in, has_sum = p->rounded && p->place.data, has_other = p->other;
        const size_t blocks = sum_block_count(row_count), widths = (2 * has_norm + has_sum) * width;
        const size_t other_width = has_other ? p->other_width : 0;
        const struct operand rounded = {dtype, p->rounded};
        float *room = block_sums<where>::room(2 * has_norm + has_sum + has_other, blocks, widths + other_width);
        if (!room)
            return;
        where::stream(stream_operation{row_count,
                                       width,
                                       gradient,
                                       {width,
                                        norm.in,
                                        norm.stats,
                                        {dtype, (void *)norm.weight},
                                        {dtype, (void *)norm.out_gradient},
                                        gradient,
                                        norm.is_first,
                                        {dtype, p->rounded != gradient ? p->rounded : NULL}},
                                       room,
                                       room + blocks * width,
                                       rounded,
                                       has_sum ? room + 2 * has_norm * blocks * width : NULL,
                                       {width,
                                        again.in,
                                        again.stats,
                                        {dtype, (void *)again.weight},
                                        {dtype, (void *)again.bias},
                                        {dtype, again.out}},
                                       other_width,
                                       {dtype, (void *)p->other},
                                       room + blocks * widths},
                      blocks, "gradients of a stream");
        bool wait = true;
        for (int i = 0; i < 2 * has_norm; i++)
            wait &= block_sums<where>::add(blocks, width, sums + (size_t)i * width, norm.places[i]);
        if (has_sum)
            wait &= block_sums<where>::add(blocks, width, sums, p->place);
        if (has_other)
            wait &= block_sums<where>::add(blocks, other_width, sums, p->other_place);
        if (!wait)
            block_sums<where>::finish();
    }

    static void layernorm_backward(size_t row_count, size_t width, const float *from, const float *stats,
                                   enum dtype dtype, const void *weight, const void *out_gradient, float *in_gradient,
                                   float *sums, const struct sum_place *places)
    {
        struct stream_parts parts = {};
        parts.norm = {from, stats, weight, out_gradient, false, {}};
        for (int i = 0; i < 2 && places; i++)
            parts.norm.places[i] = places[i];
        stream_backward(row_count, width, dtype, in_gradient, sums, &parts);
    }
};
