// SPDX-License-Identifier: Apache-2.0
// Tiles of operands in shared memory, which the threads of a block fill together.
#pragma once

#include "ref/cuda/array_element.cuh"

enum { TILE_OTHER = 64, TILE_COLUMNS = 64, TILE_THREADS = 128 };

template <enum dtype D> struct tile_element {
    typedef uint16_t type;
};
template <> struct tile_element<DTYPE_FP32> {
    typedef float type;
};

// Operands, in rows whose distance keeps the accesses of a warp in different banks.
template <enum dtype D, int rows> struct alignas(16) tile {
    typedef typename tile_element<D>::type element;
    enum { ROWS = rows, STRIDE = D == DTYPE_FP32 ? TILE_COLUMNS + 1 : TILE_COLUMNS + 8, WIDE_COLUMNS = 8 };
    element x[rows * STRIDE];

    __host__ __device__ float get(unsigned r, unsigned c) const
    {
        float value[1];
        load<1>(D, x, r * STRIDE + c, value);
        return value[0];
    }
    __host__ __device__ void put(unsigned r, unsigned c, float value)
    {
        store<1>(D, x, r * STRIDE + c, &value);
    }
};

// Rows of operands in global memory; wide: rows begin where 16 bytes can be loaded, and columns are whole such loads.
template <enum dtype D> struct tile_source {
    const typename tile_element<D>::type *data;
    unsigned stride;
    bool is_wide;
};

// Rows and columns that the source does not have are 0.
#pragma nv_exec_check_disable
template <typename block_type, enum dtype D, int rows>
__host__ __device__ static inline void tile_fill(const block_type &block, tile<D, rows> &to, struct tile_source<D> from,
                                                 unsigned row_count, unsigned column_count)
{
    typedef typename tile_element<D>::type element;
    if (D != DTYPE_FP32 && from.is_wide) {
        const unsigned wide = tile<D, rows>::WIDE_COLUMNS, loads = TILE_COLUMNS / wide;
        block.each(rows * loads, [&](unsigned i) {
            unsigned r = i / loads, c = i % loads * wide;
            uint4 value = {0, 0, 0, 0};
            if (r < row_count && c < column_count)
                value = *(const uint4 *)(from.data + r * from.stride + c);
            *(uint4 *)(to.x + r * tile<D, rows>::STRIDE + c) = value;
        });
        return;
    }
    block.each(rows * TILE_COLUMNS, [&](unsigned i) {
        unsigned r = i / TILE_COLUMNS, c = i % TILE_COLUMNS;
        to.x[r * tile<D, rows>::STRIDE + c] =
            r < row_count && c < column_count ? from.data[r * from.stride + c] : (element)0;
    });
}

// Tiles of a block of threads, one after the other: `begin` lets the next one come, and `take` returns it when it is
// there, for all threads, until the next `take`. After a `take` no thread reads an earlier tile. In 16 bits one comes
// while the one before is multiplied; in fp32 there is shared memory for one.
template <enum dtype D> struct tile_stream {
    typedef tile<D, TILE_OTHER> one;
    enum { TILES = D == DTYPE_FP32 ? 1 : 2 };
    struct memory {
        one tiles[TILES];
    } & shared;
    unsigned at = 0, rows = 0, columns = 0;  // of the one that comes
    tile_source<D> source = {};

    __host__ __device__ explicit tile_stream(memory &of_block) : shared(of_block)
    {
    }

#pragma nv_exec_check_disable
    template <typename block_type>
    __host__ __device__ void begin(const block_type &block, struct tile_source<D> from, unsigned row_count,
                                   unsigned column_count)
    {
        source = from;
        rows = row_count;
        columns = column_count;
        at = (at + 1) % TILES;
        if (TILES > 1 && from.is_wide)
            copy(block, shared.tiles[at]);
        else if (TILES > 1)
            tile_fill(block, shared.tiles[at], from, row_count, column_count);
    }

#pragma nv_exec_check_disable
    template <typename block_type> __host__ __device__ const one &take(const block_type &block)
    {
        if (TILES == 1) {
            block.sync();
            tile_fill(block, shared.tiles[0], source, rows, columns);
        } else
            block.wait_for_copies();
        block.sync();
        return shared.tiles[at];
    }

#pragma nv_exec_check_disable
    template <typename block_type> __host__ __device__ void copy(const block_type &block, one &to)
    {
        const unsigned wide = one::WIDE_COLUMNS, pieces = TILE_COLUMNS / wide;
        block.each(TILE_OTHER * pieces, [&](unsigned i) {
            unsigned r = i / pieces, c = i % pieces * wide;
            uint4 *piece = (uint4 *)(to.x + r * one::STRIDE + c);
            if (r < rows && c < columns)
                block.copy(piece, (const uint4 *)(source.data + r * source.stride + c));
            else
                *piece = {0, 0, 0, 0};
        });
    }
};
