// SPDX-License-Identifier: Apache-2.0
// Products of floats as matmul.h defines them: each element is one chain of fused multiply-adds over k, ascending. A
// block of threads has a tile of c, whose sums stay in the threads' registers, and goes along k in steps whose operands
// lie in shared memory. For tests on the host a block is one thread.
#pragma once

#include "ref/arithmetic/matmul.h"
#include "ref/cuda/gpt_tile.cuh"

enum { CHAIN_ROWS = 128, CHAIN_COLUMNS = 64, CHAIN_DEPTH = 16 };

// Which of the tile's elements a thread of a block has: HEIGHT x WIDTH of them.
template <typename block_type> struct chains_of;
template <> struct chains_of<host_block> {
    enum { HEIGHT = CHAIN_ROWS, WIDTH = CHAIN_COLUMNS };

    __host__ __device__ static unsigned row(unsigned i)
    {
        return i;
    }
    __host__ __device__ static unsigned column(unsigned j)
    {
        return j;
    }
};

#ifdef __CUDACC__
// Fours of rows and columns, half a tile apart, so that a warp's wide loads come from different banks.
template <> struct chains_of<device_block> {
    enum { HEIGHT = 8, WIDTH = 8, ACROSS = CHAIN_COLUMNS / WIDTH };

    __device__ static unsigned row(unsigned i)
    {
        return i / 4 * (CHAIN_ROWS / 2) + threadIdx.x / ACROSS * 4 + i % 4;
    }
    __device__ static unsigned column(unsigned j)
    {
        return j / 4 * (CHAIN_COLUMNS / 2) + threadIdx.x % ACROSS * 4 + j % 4;
    }
};
#endif

// Element (line, k) of an operand lies at line x `line` + k x `step`: rows of op(a), columns of op(b).
struct chain_operand {
    const float *data;
    size_t line, step;
};

struct chain_operation {
    enum { BLOCKS = 1 };     // as of gpt_attention.cuh
    size_t m, n, k, across;  // across: tiles side by side
    float alpha;
    bool add;
    struct chain_operand a, b;
    float *c;
    size_t c_stride;

    // Rows are whole loads of 16 bytes, and four more floats, which keep stores in different banks.
    struct memory {
        alignas(16) float a[CHAIN_DEPTH][CHAIN_ROWS + 4], b[CHAIN_DEPTH][CHAIN_COLUMNS + 4];
    };

    // Neighbouring threads read neighbouring elements. What the operand does not have is not read, and not used.
#pragma nv_exec_check_disable
    template <typename block_type, int lines>
    __host__ __device__ static void fill(const block_type &block, float (&to)[CHAIN_DEPTH][lines],
                                         const struct chain_operand &from, size_t line, size_t line_count, size_t step,
                                         size_t step_count, float factor)
    {
        const bool is_along = from.step == 1;
        block.each((lines - 4) * CHAIN_DEPTH, [&](unsigned i) {
            unsigned l = is_along ? i / CHAIN_DEPTH : i % (lines - 4), x = is_along ? i % CHAIN_DEPTH : i / (lines - 4);
            if (line + l < line_count && step + x < step_count)
                to[x][l] = factor * from.data[(line + l) * from.line + (step + x) * from.step];
        });
    }

#pragma nv_exec_check_disable
    template <typename block_type>
    __host__ __device__ void task(const block_type &block, size_t index, memory &shared) const
    {
        typedef chains_of<block_type> own;
        const size_t row = index / across * CHAIN_ROWS, column = index % across * CHAIN_COLUMNS;
        float s[own::HEIGHT * own::WIDTH];
        UNROLL(64)
        for (unsigned e = 0; e < own::HEIGHT * own::WIDTH; e++) {
            size_t i = row + own::row(e / own::WIDTH), j = column + own::column(e % own::WIDTH);
            s[e] = add && i < m && j < n ? c[i * c_stride + j] : 0;
        }
        for (size_t first = 0; first < k; first += CHAIN_DEPTH) {
            const unsigned count = k - first < CHAIN_DEPTH ? (unsigned)(k - first) : (unsigned)CHAIN_DEPTH;
            block.sync();
            fill(block, shared.a, a, row, m, first, k, alpha);
            fill(block, shared.b, b, column, n, first, k, 1);
            block.sync();
            UNROLL(4)
            for (unsigned x = 0; x < count; x++)
                add_step<own>(shared, x, s);
        }
        UNROLL(64)
        for (unsigned e = 0; e < own::HEIGHT * own::WIDTH; e++) {
            size_t i = row + own::row(e / own::WIDTH), j = column + own::column(e % own::WIDTH);
            if (i < m && j < n)
                c[i * c_stride + j] = s[e];
        }
    }

    template <typename own> __host__ __device__ static void add_step(const memory &shared, unsigned x, float *s)
    {
        float left[own::HEIGHT], right[own::WIDTH];
        UNROLL(8)
        for (unsigned i = 0; i < own::HEIGHT; i++)
            left[i] = shared.a[x][own::row(i)];
        UNROLL(8)
        for (unsigned j = 0; j < own::WIDTH; j++)
            right[j] = shared.b[x][own::column(j)];
        UNROLL(8)
        for (unsigned i = 0; i < own::HEIGHT; i++)
            UNROLL(8)
        for (unsigned j = 0; j < own::WIDTH; j++)
            s[i * own::WIDTH + j] = fmaf(left[i], right[j], s[i * own::WIDTH + j]);
    }
};

template <typename where> static void matmul_chains(const struct matmul_product *p)
{
    const size_t down = p->m / CHAIN_ROWS + (p->m % CHAIN_ROWS > 0);
    const size_t across = p->n / CHAIN_COLUMNS + (p->n % CHAIN_COLUMNS > 0);
    const struct matmul_operand a = p->a, b = p->b;
    const chain_operation o = {p->m,
                               p->n,
                               p->k,
                               across,
                               p->alpha,
                               p->add,
                               {(const float *)a.data, a.transposed ? 1 : a.stride, a.transposed ? a.stride : 1},
                               {(const float *)b.data, b.transposed ? b.stride : 1, b.transposed ? 1 : b.stride},
                               (float *)p->c,
                               p->c_stride};
    where::tasks(o, down * across, "a matrix product");
}
