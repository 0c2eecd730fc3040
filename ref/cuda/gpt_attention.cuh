// SPDX-License-Identifier: Apache-2.0
// Attention as gpt_attention_kernel.h defines it, FlashAttention-2's way (arXiv 2307.08691): a block of threads has
// TILE_OWN rows, or in the gradients of keys and values as many keys, and goes through the blocks of the others; scores
// exist in registers and shared memory alone. A block of threads has TILE_COLUMNS columns of the results; wider heads
// have several, each of which computes the scores anew, from panels of as many columns.
#pragma once

#include <math.h>

#include "ref/cuda/gpt_tile.cuh"

// The arrays of a call, as in gpt_math.h.
template <enum dtype D> struct attention_arrays {
    typedef typename tile_element<D>::type element;
    size_t length, heads, width, head_width, tiles, panels;
    const element *qkv, *out_gradient;
    struct operand out, qkv_gradient;
    float *stats, *sums;
    float scale;
    bool is_wide;
};

// The rows, or keys, from `first` on, and the columns from `column` on, which a block of threads computes.
template <enum dtype D> struct attention_task : attention_arrays<D> {
    size_t first, count, column, columns;
    size_t row;    // of the sequence's beginning
    size_t head;   // in the whole batch
    size_t begin;  // of the head's columns

    // is_last_first: tiles with more rows before them begin earlier.
    __host__ __device__ attention_task(const attention_arrays<D> &all, size_t index, bool is_last_first)
        : attention_arrays<D>(all)
    {
        size_t tile_index = index / this->panels % this->tiles;
        head = index / this->panels / this->tiles;
        first = (is_last_first ? this->tiles - 1 - tile_index : tile_index) * TILE_OWN;
        count = least(this->length - first, TILE_OWN);
        column = index % this->panels * TILE_COLUMNS;
        columns = least(this->head_width - column, TILE_COLUMNS);
        row = head / this->heads * this->length;
        begin = head % this->heads * this->head_width;
    }

    __host__ __device__ static size_t least(size_t a, size_t b)
    {
        return a < b ? a : b;
    }
    // The columns of panel `index`.
    __host__ __device__ size_t panel_columns(size_t index) const
    {
        return least(this->head_width - index * TILE_COLUMNS, TILE_COLUMNS);
    }
    // Part 0, 1, 2 of qkv: q, k, v.
    __host__ __device__ struct tile_source<D> source(size_t part, size_t position, size_t from_column) const {
        size_t stride = 3 * this->width;
        return {this->qkv + (row + position) * stride + part * this->width + begin + from_column, stride,
                this->is_wide};
    } __host__ __device__ struct tile_source<D> gradient_source(size_t position, size_t from_column) const {
        return {this->out_gradient + (row + position) * this->width + begin + from_column, this->width, this->is_wide};
    }
    // Of row `position`: its statistics, its sum of gradient x output.
    __host__ __device__ float *
    stats_of(size_t position) const
    {
        return this->stats + 2 * (head * this->length + position);
    }
    __host__ __device__ float sum_of_row(size_t position) const
    {
        return this->sums[head * this->length + position];
    }
    __host__ __device__ void put_gradient(size_t part, size_t r, size_t c, float x) const
    {
        if (r < count && c < columns)
            this->qkv_gradient.put((row + first + r) * 3 * this->width + part * this->width + begin + column + c, x);
    }
};

// An operation of a block of threads on task `index`; `shared` is the block's.
#define TASK                                                                                                           \
    _Pragma("nv_exec_check_disable") template <typename block_type>                                                    \
    __host__ __device__ void task(const block_type &block, size_t index, memory &shared) const

template <enum dtype D> struct attention_forward_operation {
    attention_arrays<D> arrays;

    struct memory {
        tile<D, TILE_OWN> q, p;
        tile<D, TILE_OTHER> other;
        float s[TILE_OWN * TILE_OTHER], stats[2 * TILE_OWN], rescale[TILE_OWN];
    };

    TASK
    {
        const attention_task<D> t(arrays, index, true);
        typename block_type::template sum<D> o, s;
        block.each(TILE_OWN, [&](unsigned r) {
            shared.stats[2 * r] = -INFINITY;
            shared.stats[2 * r + 1] = 0;
        });
        for (size_t key = 0; key < t.first + t.count; key += ATTENTION_BLOCK) {
            size_t key_count = t.least(t.length - key, ATTENTION_BLOCK);
            s.zero();
            for (size_t panel = 0; panel < t.panels; panel++) {
                size_t from = panel * TILE_COLUMNS, columns = t.panel_columns(panel);
                block.sync();
                if (key == 0 || t.panels > 1)
                    tile_fill(block, shared.q, t.source(0, t.first, from), t.count, columns);
                tile_fill(block, shared.other, t.source(1, key, from), key_count, columns);
                block.sync();
                s.template add<true>(shared.q, shared.other, (unsigned)columns);
            }
            s.each([&](unsigned r, unsigned c, float x) { shared.s[r * TILE_OTHER + c] = x * t.scale; });
            block.sync();
            tile_fill(block, shared.other, t.source(2, key, t.column), key_count, t.columns);
            block.rows(TILE_OWN, [&](const auto &team, unsigned r) { softmax_row(team, t, key, r, shared); });
            block.sync();
            o.each([&](unsigned r, unsigned, float &x) { x *= shared.rescale[r]; });
            o.template add<false>(shared.p, shared.other, (unsigned)key_count);
        }
        o.each([&](unsigned r, unsigned c, float x) {
            if (r < t.count && c < t.columns)
                t.out.put((t.row + t.first + r) * t.width + t.begin + t.column + c,
                          x * (1.0f / shared.stats[2 * r + 1]));
        });
        if (t.column == 0)
            block.each((unsigned)t.count, [&](unsigned r) {
                t.stats_of(t.first + r)[0] = shared.stats[2 * r];
                t.stats_of(t.first + r)[1] = 1.0f / shared.stats[2 * r + 1];
            });
    }

    // Of row r with one block of keys: p, the statistics, and the factor for what there is of out.
#pragma nv_exec_check_disable
    template <typename team_type>
    __host__ __device__ static void softmax_row(const team_type &team, const attention_task<D> &t, size_t key,
                                                unsigned r, struct memory &shared)
    {
        const float *from = shared.s + r * TILE_OTHER;
        size_t covered = r < t.count ? t.least(t.first + r + 1 - key, ATTENTION_BLOCK) : 0;
        float before = shared.stats[2 * r], most = covered > 0 ? team.largest(covered, from) : before;
        float top = most > before ? most : before;
        float sum = sum_of(team, covered, [&](size_t j) { return exp_within(from[j] - top); });
        team.each(0, ATTENTION_BLOCK,
                  [&](size_t j) { shared.p.put(r, (unsigned)j, j < covered ? exp_within(from[j] - top) : 0.0f); });
        if (team.is_first()) {
            float rescale = exp_within(before - top);
            shared.rescale[r] = rescale;
            shared.stats[2 * r] = top;
            shared.stats[2 * r + 1] = rescale * shared.stats[2 * r + 1] + sum;
        }
    }
};

// D_i = the sum of dout_i out_i of each head's row i.
struct attention_sums_operation {
    size_t length, heads, width, head_width;
    struct operand out, out_gradient;
    float *sums;

    ROW
    {
        size_t s = r / length / heads, head = r / length % heads;
        size_t first = (s * length + r % length) * width + head * head_width;
        float sum =
            sum_of(team, head_width, [&](size_t j) { return out_gradient.get(first + j) * out.get(first + j); });
        if (team.is_first())
            sums[r] = sum;
    }
};

// The memory of both operations of the backward pass: the task's own vectors, a block of the others, and p or ds.
template <enum dtype D> struct attention_backward_memory {
    tile<D, TILE_OWN> first, second, p;
    tile<D, TILE_OTHER> other;
};

// p and ds of a row and a key, from their products.
template <enum dtype D>
__host__ __device__ static inline float2 attention_slope(const attention_task<D> &t, size_t row, size_t key, float s,
                                                         float g)
{
    if (row >= t.length || key > row)
        return {0, 0};
    float p = exp_within(s * t.scale - t.stats_of(row)[0]) * t.stats_of(row)[1];
    return {p, p * (g - t.sum_of_row(row))};
}

template <enum dtype D> struct attention_queries_operation {
    attention_arrays<D> arrays;
    typedef attention_backward_memory<D> memory;

    TASK
    {
        const attention_task<D> t(arrays, index, true);
        typename block_type::template sum<D> dq, s, g;
        for (size_t key = 0; key < t.first + t.count; key += ATTENTION_BLOCK) {
            size_t key_count = t.least(t.length - key, ATTENTION_BLOCK);
            s.zero();
            g.zero();
            for (size_t panel = 0; panel < t.panels; panel++) {
                size_t from = panel * TILE_COLUMNS, columns = t.panel_columns(panel);
                block.sync();
                if (key == 0 || t.panels > 1) {
                    tile_fill(block, shared.first, t.source(0, t.first, from), t.count, columns);
                    tile_fill(block, shared.second, t.gradient_source(t.first, from), t.count, columns);
                }
                tile_fill(block, shared.other, t.source(2, key, from), key_count, columns);
                block.sync();
                g.template add<true>(shared.second, shared.other, (unsigned)columns);
                block.sync();
                tile_fill(block, shared.other, t.source(1, key, from), key_count, columns);
                block.sync();
                s.template add<true>(shared.first, shared.other, (unsigned)columns);
            }
            block.sync();
            g.both(s, [&](unsigned r, unsigned c, float dp, float dots) {
                shared.p.put(r, c, attention_slope(t, t.first + r, key + c, dots, dp).y);
            });
            if (t.panels > 1)
                tile_fill(block, shared.other, t.source(1, key, t.column), key_count, t.columns);
            block.sync();
            dq.template add<false>(shared.p, shared.other, (unsigned)key_count);
        }
        dq.each([&](unsigned r, unsigned c, float x) { t.put_gradient(0, r, c, x * t.scale); });
    }
};

// The gradients of keys and values; tiles of p and ds have a row for each key.
template <enum dtype D> struct attention_keys_operation {
    attention_arrays<D> arrays;
    typedef attention_backward_memory<D> memory;

    TASK
    {
        const attention_task<D> t(arrays, index, false);
        typename block_type::template sum<D> dk, dv, s, g;
        const size_t begin = t.first / ATTENTION_BLOCK * ATTENTION_BLOCK;
        for (size_t row = begin; row < t.length; row += ATTENTION_BLOCK) {
            size_t row_count = t.least(t.length - row, ATTENTION_BLOCK);
            s.zero();
            g.zero();
            for (size_t panel = 0; panel < t.panels; panel++) {
                size_t from = panel * TILE_COLUMNS, columns = t.panel_columns(panel);
                block.sync();
                if (row == begin || t.panels > 1) {
                    tile_fill(block, shared.first, t.source(1, t.first, from), t.count, columns);
                    tile_fill(block, shared.second, t.source(2, t.first, from), t.count, columns);
                }
                tile_fill(block, shared.other, t.source(0, row, from), row_count, columns);
                block.sync();
                s.template add<true>(shared.first, shared.other, (unsigned)columns);
                block.sync();
                tile_fill(block, shared.other, t.gradient_source(row, from), row_count, columns);
                block.sync();
                g.template add<true>(shared.second, shared.other, (unsigned)columns);
            }
            s.both(g, [&](unsigned r, unsigned c, float &dots, float &dp) {
                float2 both = attention_slope(t, row + c, t.first + r, dots, dp);
                dots = both.x;
                dp = both.y;
            });
            block.sync();
            s.each([&](unsigned r, unsigned c, float p) { shared.p.put(r, c, p); });
            if (t.panels > 1)
                tile_fill(block, shared.other, t.gradient_source(row, t.column), row_count, t.columns);
            block.sync();
            dv.template add<false>(shared.p, shared.other, (unsigned)row_count);
            block.sync();
            g.each([&](unsigned r, unsigned c, float ds) { shared.p.put(r, c, ds); });
            tile_fill(block, shared.other, t.source(0, row, t.column), row_count, t.columns);
            block.sync();
            dk.template add<false>(shared.p, shared.other, (unsigned)row_count);
        }
        dk.each([&](unsigned r, unsigned c, float x) { t.put_gradient(1, r, c, x * t.scale); });
        dv.each([&](unsigned r, unsigned c, float x) { t.put_gradient(2, r, c, x); });
    }
};
