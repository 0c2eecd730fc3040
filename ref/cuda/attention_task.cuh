// SPDX-License-Identifier: Apache-2.0
// The arrays of attention on a device, and what one block of threads computes of them: TILE_COLUMNS columns of the
// results of some rows, or keys. Wider heads have several such panels.
#pragma once

#include "ref/cuda/gpt_tile.cuh"

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

// The vectors of a position.
enum attention_part { QUERIES, KEYS, VALUES, OUT_GRADIENTS };

// The rows, or keys, from `first` on, and the columns from `column` on, of panel `panel`, that a block of threads has.
template <enum dtype D> struct attention_task : attention_arrays<D> {
    typedef typename tile_element<D>::type element;
    unsigned first, count, panel, column, columns;
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
        panel = (unsigned)(index % this->panels);
        column = panel * TILE_COLUMNS;
        columns = panel_columns(panel);
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
    // Of positions from `from` on.
    __host__ __device__ tile_source<D> source(enum attention_part part, unsigned from, unsigned of_panel) const
    {
        const unsigned stride = part == OUT_GRADIENTS ? this->width : 3 * this->width;
        const element *data = part == OUT_GRADIENTS ? this->out_gradient : this->qkv + part * this->width;
        return {data + (row + from) * stride + begin + of_panel * TILE_COLUMNS, stride, this->is_wide};
    }
    // Lets a block of rows or keys come.
#pragma nv_exec_check_disable
    template <typename block_type>
    __host__ __device__ void next(const block_type &block, tile_stream<D> &others, enum attention_part part,
                                  unsigned from, unsigned of_panel) const
    {
        others.begin(block, source(part, from, of_panel), block_count(from), panel_columns(of_panel));
    }
    // The task's own rows or keys.
#pragma nv_exec_check_disable
    template <typename block_type, int rows>
    __host__ __device__ void fill(const block_type &block, tile<D, rows> &own, enum attention_part part,
                                  unsigned of_panel) const
    {
        tile_fill(block, own, source(part, first, of_panel), count, panel_columns(of_panel));
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
