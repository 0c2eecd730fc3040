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

// Replaces a tile that threads may still read by one that they can read on return.
#pragma nv_exec_check_disable
template <typename block_type, enum dtype D, int rows>
__host__ __device__ static inline void tile_replace(const block_type &block, tile<D, rows> &to,
                                                    struct tile_source<D> from, unsigned row_count,
                                                    unsigned column_count)
{
    block.sync();
    tile_fill(block, to, from, row_count, column_count);
    block.sync();
}
