// SPDX-License-Identifier: Apache-2.0
// Attention as gpt_attention_kernel.h defines it, FlashAttention-2's way (arXiv 2307.08691): a block of threads has
// some rows, or in the gradients of keys and values as many keys, and goes through the blocks of the others; scores
// exist in registers and shared memory alone, and on tensor cores in registers, where a product's result is the next
// one's operand. A block of threads has TILE_COLUMNS columns of the results; wider heads have several, each of which
// computes the scores anew, from panels of as many columns.
#pragma once

#include "ref/cuda/attention_softmax.cuh"
#include "ref/cuda/attention_task.cuh"

// An operation of a block of threads on task `index`; `shared` is the block's. A multiprocessor has registers for
// BLOCKS of them.
#define TASK                                                                                                           \
    _Pragma("nv_exec_check_disable") template <typename block_type>                                                    \
    __host__ __device__ void task(const block_type &block, size_t index, memory &shared) const

template <enum dtype D, typename block_of> struct attention_forward_operation {
    enum { BLOCKS = 5 };
    typedef typename block_of::template sum<D> sum;
    attention_arrays<D> arrays;

    struct memory {
        tile<D, sum::ROWS> q;
        typename tile_stream<D>::memory others;
        typename sum::softmax::memory rows;
    };

    TASK
    {
        const attention_task<D> t(arrays, index, sum::ROWS, true);
        typename sum::softmax softmax(block, shared.rows);
        tile_stream<D> others(shared.others);
        sum o, s;
        t.next(block, others, KEYS, 0, 0);
        for (unsigned key = 0; key < t.first + t.count; key += ATTENTION_BLOCK) {
            s.zero();
            for (unsigned panel = 0; panel < t.panels; panel++) {
                if (key == 0 || t.panels > 1) {
                    block.sync();
                    t.fill(block, shared.q, QUERIES, panel);
                }
                const auto &k = others.take(block);
                if (panel + 1 < t.panels)
                    t.next(block, others, KEYS, key, panel + 1);
                else
                    t.next(block, others, VALUES, key, t.panel);
                s.template add<true>(shared.q, k, t.panel_columns(panel));
            }
            const auto &p = softmax.add(block, s, o, t.scale, t.first, key);
            const auto &v = others.take(block);
            if (key + ATTENTION_BLOCK < t.first + t.count)
                t.next(block, others, KEYS, key + ATTENTION_BLOCK, 0);
            o.template add<false>(p, v, t.block_count(key));
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
    typename tile_stream<D>::memory others;
    typename sum::operand p;
    attention_row_stats<row_count> rows;
};

template <enum dtype D, typename block_of> struct attention_queries_operation {
    enum { BLOCKS = 3 };
    typedef typename block_of::template sum<D> sum;
    typedef attention_backward_memory<D, sum, sum::ROWS> memory;
    attention_arrays<D> arrays;

    TASK
    {
        const attention_task<D> t(arrays, index, sum::ROWS, true);
        tile_stream<D> others(shared.others);
        sum dq, s, g;
        t.next(block, others, VALUES, 0, 0);
        shared.rows.make(block, t);
        for (unsigned key = 0; key < t.first + t.count; key += ATTENTION_BLOCK) {
            const bool is_last = key + ATTENTION_BLOCK >= t.first + t.count;
            const typename tile_stream<D>::one *k = NULL;
            s.zero();
            g.zero();
            for (unsigned panel = 0; panel < t.panels; panel++) {
                if (key == 0 || t.panels > 1) {
                    block.sync();
                    t.fill(block, shared.first, QUERIES, panel);
                    t.fill(block, shared.second, OUT_GRADIENTS, panel);
                }
                const auto &v = others.take(block);
                t.next(block, others, KEYS, key, panel);
                g.template add<true>(shared.second, v, t.panel_columns(panel));
                k = &others.take(block);
                if (panel + 1 < t.panels)
                    t.next(block, others, VALUES, key, panel + 1);
                else if (t.panels > 1)
                    t.next(block, others, KEYS, key, t.panel);
                else if (!is_last)
                    t.next(block, others, VALUES, key + ATTENTION_BLOCK, 0);
                s.template add<true>(shared.first, *k, t.panel_columns(panel));
            }
            g.both(s, [&](unsigned r, unsigned c, float &dp, float dots) {
                dp = shared.rows.slope(r, key + c <= t.first + r, dots * t.scale, dp).y;
            });
            if (t.panels > 1) {
                k = &others.take(block);
                if (!is_last)
                    t.next(block, others, VALUES, key + ATTENTION_BLOCK, 0);
            }
            dq.template add<false>(g.as_operand(block, shared.p), *k, t.block_count(key));
        }
        dq.each([&](unsigned r, unsigned c, float x) { t.put_gradient(0, r, c, x * t.scale); });
    }
};

// The gradients of keys and values; tiles of p and ds have a row for each key.
template <enum dtype D, typename block_of> struct attention_keys_operation {
    enum { BLOCKS = 3 };
    typedef typename block_of::template sum<D> sum;
    typedef attention_backward_memory<D, sum, TILE_OTHER> memory;
    attention_arrays<D> arrays;

    TASK
    {
        const attention_task<D> t(arrays, index, sum::ROWS, false);
        tile_stream<D> others(shared.others);
        sum dk, dv, s, g;
        const unsigned begin = t.first / ATTENTION_BLOCK * ATTENTION_BLOCK;
        t.next(block, others, QUERIES, begin, 0);
        for (unsigned row = begin; row < t.length; row += ATTENTION_BLOCK) {
            const typename tile_stream<D>::one *dout = NULL;
            s.zero();
            g.zero();
            for (unsigned panel = 0; panel < t.panels; panel++) {
                if (row == begin || t.panels > 1) {
                    block.sync();
                    t.fill(block, shared.first, KEYS, panel);
                    t.fill(block, shared.second, VALUES, panel);
                }
                const auto &q = others.take(block);
                t.next(block, others, OUT_GRADIENTS, row, panel);
                if (panel == 0)
                    shared.rows.fill(block, t, row, [&](unsigned r) { return *t.sum_of(row + r); });
                s.template add<true>(shared.first, q, t.panel_columns(panel));
                dout = &others.take(block);
                if (panel + 1 < t.panels)
                    t.next(block, others, QUERIES, row, panel + 1);
                else
                    t.next(block, others, t.panels > 1 ? OUT_GRADIENTS : QUERIES, row, t.panel);
                g.template add<true>(shared.second, *dout, t.panel_columns(panel));
            }
            s.both(g, [&](unsigned r, unsigned c, float &dots, float &dp) {
                float2 both = shared.rows.slope(c, t.first + r <= row + c, dots * t.scale, dp);
                dots = both.x;
                dp = both.y;
            });
            if (t.panels > 1) {
                dout = &others.take(block);
                t.next(block, others, QUERIES, row, t.panel);
            }
            dv.template add<false>(s.as_operand(block, shared.p), *dout, t.block_count(row));
            const auto &q = others.take(block);
            if (row + ATTENTION_BLOCK < t.length)
                t.next(block, others, QUERIES, row + ATTENTION_BLOCK, 0);
            dk.template add<false>(g.as_operand(block, shared.p), q, t.block_count(row));
        }
        dk.each([&](unsigned r, unsigned c, float x) { t.put_gradient(1, r, c, x * t.scale); });
        dv.each([&](unsigned r, unsigned c, float x) { t.put_gradient(2, r, c, x); });
    }
};
