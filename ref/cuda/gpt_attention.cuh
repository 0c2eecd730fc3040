// SPDX-License-Identifier: Apache-2.0
// Attention as gpt_attention_kernel.h defines it, FlashAttention-2's way (arXiv 2307.08691): a block of threads has
// some rows, or in the gradients of keys and values as many keys, and goes through the blocks of the others; scores
// exist in registers and shared memory alone, and on tensor cores in registers, where a product's result is the next
// one's operand. A block of threads has TILE_COLUMNS columns of the results; wider heads have several, each of which
// computes the scores anew, from panels of as many columns.
#pragma once

#include "ref/cuda/attention_softmax.cuh"

// The arrays of a call, as in gpt_math.h. A position, and the distance of two elements of a tile, has 32 bits.
template <enum dtype D> struct attention_arrays {
    typedef typename tile_element<D>::type element;
    unsigned length, heads, width, head_width, tiles, panels;
    const element *qkv, *out_gradient;
    element *out, *qkv_gradient;
    float *stats, *sums;
    float scale;
    bool is_wide;
};

// The rows, or keys, from `first` on, and the columns from `column` on, which a block of threads computes.
template <enum dtype D> struct attention_task : attention_arrays<D> {
    typedef typename tile_element<D>::type element;
    unsigned first, count, column, columns;
    size_t row;      // of the sequence's beginning
    size_t head;     // in the whole batch
    unsigned begin;  // of the head's columns

    // is_last_first: tiles with more rows before them begin earlier.
    __host__ __device__ attention_task(const attention_arrays<D> &all, size_t index, unsigned rows, bool is_last_first)
        : attention_arrays<D>(all)
    {
        unsigned tile_index = (unsigned)(index / this->panels % this->tiles);
        head = index / this->panels / this->tiles;
        first = (is_last_first ? this->tiles - 1 - tile_index : tile_index) * rows;
        count = least(this->length - first, rows);
        column = (unsigned)(index % this->panels) * TILE_COLUMNS;
        columns = least(this->head_width - column, TILE_COLUMNS);
        row = head / this->heads * this->length;
        begin = (unsigned)(head % this->heads) * this->head_width;
    }

    __host__ __device__ static unsigned least(unsigned a, unsigned b)
    {
        return a < b ? a : b;
    }
    // The columns of panel `index`.
    __host__ __device__ unsigned panel_columns(unsigned index) const
    {
        return least(this->head_width - index * TILE_COLUMNS, TILE_COLUMNS);
    }
    // Of the block of rows or keys from `from` on.
    __host__ __device__ unsigned block_count(unsigned from) const
    {
        return least(this->length - from, ATTENTION_BLOCK);
    }
    // Part 0, 1, 2 of qkv: q, k, v.
    __host__ __device__ tile_source<D> source(unsigned part, unsigned position, unsigned from_column) const
    {
        unsigned stride = 3 * this->width;
        return {this->qkv + (row + position) * stride + part * this->width + begin + from_column, stride,
                this->is_wide};
    }
    __host__ __device__ tile_source<D> gradient_source(unsigned position, unsigned from_column) const
    {
        return {this->out_gradient + (row + position) * this->width + begin + from_column, this->width, this->is_wide};
    }
    // Of row `position`: its statistics.
    __host__ __device__ float *stats_of(unsigned position) const
    {
        return this->stats + 2 * (head * this->length + position);
    }
    // Of row `position`: D_i, the sum of dout_i out_i over the head's columns, which the gradients of queries make.
    __host__ __device__ float *sum_of(unsigned position) const
    {
        return this->sums + head * this->length + position;
    }
    // The term of column j in the sum of the task's row r; 0 where no row is.
    __host__ __device__ float term_of(unsigned r, unsigned j) const
    {
        const size_t at = (row + first) * this->width + begin;
        float value[1] = {0}, gradient[1] = {0};
        if (r < count) {
            load<1>(D, this->out + at, r * this->width + j, value);
            load<1>(D, this->out_gradient + at, r * this->width + j, gradient);
        }
        return gradient[0] * value[0];
    }
    __host__ __device__ void put_out(unsigned r, unsigned c, float x) const
    {
        if (r < count && c < columns)
            store<1>(D, this->out + (row + first) * this->width + begin + column, r * this->width + c, &x);
    }
    __host__ __device__ void put_gradient(unsigned part, unsigned r, unsigned c, float x) const
    {
        const unsigned stride = 3 * this->width;
        element *at = this->qkv_gradient + (row + first) * stride + part * this->width + begin + column;
        if (r < count && c < columns)
            store<1>(D, at, r * stride + c, &x);
    }
};

// An operation of a block of threads on task `index`; `shared` is the block's.
#define TASK                                                                                                           \
    _Pragma("nv_exec_check_disable") template <typename block_type>                                                    \
    __host__ __device__ void task(const block_type &block, size_t index, memory &shared) const

template <enum dtype D, typename block_of> struct attention_forward_operation {
    typedef typename block_of::template sum<D> sum;
    attention_arrays<D> arrays;

    struct memory {
        tile<D, sum::ROWS> q;
        tile<D, TILE_OTHER> other;
        typename sum::softmax::memory rows;
    };

    TASK
    {
        const attention_task<D> t(arrays, index, sum::ROWS, true);
        typename sum::softmax softmax(block, shared.rows);
        sum o, s;
        for (unsigned key = 0; key < t.first + t.count; key += ATTENTION_BLOCK) {
            const unsigned key_count = t.block_count(key);
            s.zero();
            for (unsigned panel = 0; panel < t.panels; panel++) {
                const unsigned from = panel * TILE_COLUMNS, columns = t.panel_columns(panel);
                block.sync();
                if (key == 0 || t.panels > 1)
                    tile_fill(block, shared.q, t.source(0, t.first, from), t.count, columns);
                tile_fill(block, shared.other, t.source(1, key, from), key_count, columns);
                block.sync();
                s.template add<true>(shared.q, shared.other, columns);
            }
            tile_replace(block, shared.other, t.source(2, key, t.column), key_count, t.columns);
            const auto &p = softmax.add(block, s, o, t.scale, t.first, key);
            o.template add<false>(p, shared.other, key_count);
        }
        softmax.finish(o);
        o.each([&](unsigned r, unsigned c, float x) { t.put_out(r, c, x); });
        softmax.each(block, [&](unsigned r, float top, float inverse) {
            if (t.column == 0 && r < t.count) {
                t.stats_of(t.first + r)[0] = top;
                t.stats_of(t.first + r)[1] = inverse;
            }
        });
    }
};

// Of each row of a tile: its statistics and its sum of gradient x output; 0 where no row is.
template <int rows> struct alignas(16) attention_row_stats {
    enum { TOGETHER = 8 };
    float top[rows], inverse[rows], sums[rows];

    // Of rows from `first` on; sum_of(r) is called where there is one.
#pragma nv_exec_check_disable
    template <typename block_type, enum dtype D, typename function>
    __host__ __device__ void fill(const block_type &block, const attention_task<D> &t, unsigned first, function sum_of)
    {
        block.each(rows, [&](unsigned r) {
            const bool is_row = first + r < t.length;
            top[r] = is_row ? t.stats_of(first + r)[0] : 0;
            inverse[r] = is_row ? t.stats_of(first + r)[1] : 0;
            sums[r] = is_row ? sum_of(r) : 0;
        });
    }

    // Of the task's own rows, whose sums are made, some rows at a time, and left for the gradients of keys.
#pragma nv_exec_check_disable
    template <typename block_type, enum dtype D>
    __host__ __device__ void make(const block_type &block, const attention_task<D> &t)
    {
        block.rows(rows / TOGETHER, [&](const auto &team, unsigned part) { make_some(team, t, part * TOGETHER); });
        block.sync();
        fill(block, t, t.first, [&](unsigned r) {
            if (t.column == 0)
                *t.sum_of(t.first + r) = sums[r];
            return sums[r];
        });
    }

#pragma nv_exec_check_disable
    template <typename team_type, enum dtype D>
    __host__ __device__ void make_some(const team_type &team, const attention_task<D> &t, unsigned r)
    {
        float made[TOGETHER];
        team.sums_of(t.head_width, made, [&](unsigned k, size_t j) { return t.term_of(r + k, (unsigned)j); });
        for (unsigned k = 0; team.is_first() && k < TOGETHER; k++)
            sums[r + k] = made[k];
    }

    // p and ds of row r and a key, from their products.
    __host__ __device__ float2 slope(unsigned r, bool attends, float scaled, float g) const
    {
        float p = exp_within(scaled - top[r]) * inverse[r], ds = p * (g - sums[r]);
        return {attends ? p : 0, attends ? ds : 0};
    }
};

// The memory of both operations of the backward pass: the task's own vectors, a block of the others, and p or ds.
template <enum dtype D, typename sum, int row_count> struct attention_backward_memory {
    tile<D, sum::ROWS> first, second;
    tile<D, TILE_OTHER> other;
    typename sum::operand p;
    attention_row_stats<row_count> rows;
};

template <enum dtype D, typename block_of> struct attention_queries_operation {
    typedef typename block_of::template sum<D> sum;
    typedef attention_backward_memory<D, sum, sum::ROWS> memory;
    attention_arrays<D> arrays;

    TASK
    {
        const attention_task<D> t(arrays, index, sum::ROWS, true);
        sum dq, s, g;
        shared.rows.make(block, t);
        for (unsigned key = 0; key < t.first + t.count; key += ATTENTION_BLOCK) {
            const unsigned key_count = t.block_count(key);
            s.zero();
            g.zero();
            for (unsigned panel = 0; panel < t.panels; panel++) {
                const unsigned from = panel * TILE_COLUMNS, columns = t.panel_columns(panel);
                block.sync();
                if (key == 0 || t.panels > 1) {
                    tile_fill(block, shared.first, t.source(0, t.first, from), t.count, columns);
                    tile_fill(block, shared.second, t.gradient_source(t.first, from), t.count, columns);
                }
                tile_fill(block, shared.other, t.source(2, key, from), key_count, columns);
                block.sync();
                g.template add<true>(shared.second, shared.other, columns);
                tile_replace(block, shared.other, t.source(1, key, from), key_count, columns);
                s.template add<true>(shared.first, shared.other, columns);
            }
            g.both(s, [&](unsigned r, unsigned c, float &dp, float dots) {
                dp = shared.rows.slope(r, key + c <= t.first + r, dots * t.scale, dp).y;
            });
            if (t.panels > 1)
                tile_replace(block, shared.other, t.source(1, key, t.column), key_count, t.columns);
            dq.template add<false>(g.as_operand(block, shared.p), shared.other, key_count);
        }
        dq.each([&](unsigned r, unsigned c, float x) { t.put_gradient(0, r, c, x * t.scale); });
    }
};

// The gradients of keys and values; tiles of p and ds have a row for each key.
template <enum dtype D, typename block_of> struct attention_keys_operation {
    typedef typename block_of::template sum<D> sum;
    typedef attention_backward_memory<D, sum, TILE_OTHER> memory;
    attention_arrays<D> arrays;

    TASK
    {
        const attention_task<D> t(arrays, index, sum::ROWS, false);
        sum dk, dv, s, g;
        const unsigned begin = t.first / ATTENTION_BLOCK * ATTENTION_BLOCK;
        for (unsigned row = begin; row < t.length; row += ATTENTION_BLOCK) {
            const unsigned row_count = t.block_count(row);
            s.zero();
            g.zero();
            for (unsigned panel = 0; panel < t.panels; panel++) {
                const unsigned from = panel * TILE_COLUMNS, columns = t.panel_columns(panel);
                block.sync();
                if (row == begin || t.panels > 1) {
                    tile_fill(block, shared.first, t.source(1, t.first, from), t.count, columns);
                    tile_fill(block, shared.second, t.source(2, t.first, from), t.count, columns);
                }
                shared.rows.fill(block, t, row, [&](unsigned r) { return *t.sum_of(row + r); });
                tile_fill(block, shared.other, t.source(0, row, from), row_count, columns);
                block.sync();
                s.template add<true>(shared.first, shared.other, columns);
                tile_replace(block, shared.other, t.gradient_source(row, from), row_count, columns);
                g.template add<true>(shared.second, shared.other, columns);
            }
            s.both(g, [&](unsigned r, unsigned c, float &dots, float &dp) {
                float2 both = shared.rows.slope(c, t.first + r <= row + c, dots * t.scale, dp);
                dots = both.x;
                dp = both.y;
            });
            if (t.panels > 1)
                tile_replace(block, shared.other, t.gradient_source(row, t.column), row_count, t.columns);
            dv.template add<false>(s.as_operand(block, shared.p), shared.other, row_count);
            tile_replace(block, shared.other, t.source(0, row, t.column), row_count, t.columns);
            dk.template add<false>(g.as_operand(block, shared.p), shared.other, row_count);
        }
        dk.each([&](unsigned r, unsigned c, float x) { t.put_gradient(1, r, c, x * t.scale); });
        dv.each([&](unsigned r, unsigned c, float x) { t.put_gradient(2, r, c, x); });
    }
};
