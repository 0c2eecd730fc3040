// SPDX-License-Identifier: Apache-2.0
// The chains of matmul.h, in tiles of c whose sums stay in registers, after Goto and van de Geijn (Anatomy of
// High-Performance Matrix Multiplication, 2008). The including file's instruction set decides the vectors; the tiles'
// shape changes no bit. With SVE, vectors have NEON's 16 bytes: of two or four to a cycle, as server processors have.
#pragma once

#include "ref/arithmetic/matmul.h"
#include "ref/arithmetic/matmul_panel.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#define MATMUL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MATMUL_UNROLL _Pragma("GCC unroll 16")
#endif

// Bytes of a vector; the largest tile of packed operands, whose sums, a row of b and an element of a have a register
// each; and that of operands as they lie, whose rows of a have one, too. LATE_STEPS before its end a large tile fetches
// its lines of c, which its operands have driven from the first cache since it began: the stores would wait for each.
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, TILE_ROWS = 14, TILE_VECTORS = 2, DIRECT_VECTORS = 4, LATE_STEPS = 64 };
#define EACH_TILE_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, TILE_ROWS = 6, TILE_VECTORS = 2, DIRECT_VECTORS = 2, LATE_STEPS = 0 };
#define EACH_TILE_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
enum { VECTOR_BYTES = 16, TILE_ROWS = 6, TILE_VECTORS = 4, DIRECT_VECTORS = 4, LATE_STEPS = 0 };
#define EACH_TILE_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
enum { VECTOR_LANES = VECTOR_BYTES / sizeof(float), TILE_COLUMNS = TILE_VECTORS * VECTOR_LANES, DIRECT_ROWS = 4 };
// Steps between two looks at a chain's end. Without an instruction for it a fused multiply-add is a long call.
#ifdef FP_FAST_FMAF
enum { TILE_STEPS = 4 };
#else
enum { TILE_STEPS = 1 };
#endif

#include "ref/arithmetic/matmul_pack.h"

typedef float vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));

static inline __attribute__((always_inline)) vector vector_fma(float a, vector b, vector c)
{
    for (int l = 0; l < VECTOR_LANES; l++)
        c[l] = fmaf(a, b[l], c[l]);
    return c;
}

// One tile: element (i, x) of a lies at i a_row + x a_step, and rows of b and c are whole vectors.
struct matmul_tile {
    size_t k;
    const float *a;
    size_t a_row, a_step;
    const float *b;
    size_t b_stride;
    float *c;
    size_t c_stride;
};

static inline __attribute__((always_inline)) void tile_step(const float *a, size_t a_row, const float *b, size_t rows,
                                                            size_t vectors, vector sum[TILE_ROWS][DIRECT_VECTORS])
{
    MATMUL_UNROLL
    for (size_t i = 0; i < rows; i++)
        MATMUL_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[i][v] = vector_fma(a[i * a_row], *(const vector *)(b + v * VECTOR_LANES), sum[i][v]);
    // Without this, gcc takes elements of a of several steps at a time, and sums have to leave their registers.
    __asm__ volatile("" ::: "memory");
}

// Steps [x, end). Rows, vectors and `steps`, 1 or 4 between two looks at the end, are constants, so that loops unroll.
static inline __attribute__((always_inline)) void tile_steps(const struct matmul_tile *t, size_t x, size_t end,
                                                             size_t rows, size_t vectors, size_t steps,
                                                             vector sum[TILE_ROWS][DIRECT_VECTORS])
{
    const float *a = t->a + x * t->a_step, *b = t->b + x * t->b_stride;
    for (; steps == 4 && x + 4 <= end; x += 4, a += 4 * t->a_step, b += 4 * t->b_stride) {
        tile_step(a, t->a_row, b, rows, vectors, sum);
        tile_step(a + t->a_step, t->a_row, b + t->b_stride, rows, vectors, sum);
        tile_step(a + 2 * t->a_step, t->a_row, b + 2 * t->b_stride, rows, vectors, sum);
        tile_step(a + 3 * t->a_step, t->a_row, b + 3 * t->b_stride, rows, vectors, sum);
    }
    for (; x < end; x++, a += t->a_step, b += t->b_stride)
        tile_step(a, t->a_row, b, rows, vectors, sum);
}

static inline __attribute__((always_inline)) void tile_make(const struct matmul_tile *t, size_t rows, size_t vectors,
                                                            size_t steps, bool add)
{
    // Of sums whose first value it knows, gcc moves some from register to register at each step.
    static const volatile float zero = 0;
    const vector begin = (add ? 0 : zero) - (vector){0};
    vector sum[TILE_ROWS][DIRECT_VECTORS];
    float *c = t->c;
    MATMUL_UNROLL
    for (size_t i = 0; i < rows; i++)
        MATMUL_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[i][v] = add ? *(const vector *)(c + i * t->c_stride + v * VECTOR_LANES) : begin;
    const size_t late = LATE_STEPS > 0 && t->k > LATE_STEPS ? t->k - LATE_STEPS : 0;
    if (LATE_STEPS > 0) {
        tile_steps(t, 0, late, rows, vectors, steps, sum);
        MATMUL_UNROLL
        for (size_t i = 0; i < rows; i++)
            MATMUL_UNROLL
        for (size_t v = 0; v < vectors; v++)
            __builtin_prefetch(c + i * t->c_stride + v * VECTOR_LANES, 1);
    }
    tile_steps(t, late, t->k, rows, vectors, steps, sum);
    MATMUL_UNROLL
    for (size_t i = 0; i < rows; i++)
        MATMUL_UNROLL
    for (size_t v = 0; v < vectors; v++)
        *(vector *)(c + i * t->c_stride + v * VECTOR_LANES) = sum[i][v];
}

// vectors: a constant.
static inline __attribute__((always_inline)) void tile_of_height(const struct matmul_tile *t, size_t rows,
                                                                 size_t vectors, bool add)
{
#define TILE_CASE(height)                                                                                              \
    case height:                                                                                                       \
        tile_make(t, height, vectors, 1, add);                                                                         \
        break;
    switch (rows) {
        EACH_TILE_HEIGHT(TILE_CASE)
    }
#undef TILE_CASE
}

// A tile of which c has fewer columns.
static void tile_at_edge(const struct matmul_tile *t, size_t rows, size_t columns, bool add)
{
    enum { HALF = TILE_VECTORS / 2 };
    float part[TILE_ROWS * TILE_COLUMNS] = {0};
    struct matmul_tile whole = *t;
    whole.c = part;
    whole.c_stride = TILE_COLUMNS;
    for (size_t i = 0; add && i < rows; i++)
        memcpy(part + i * TILE_COLUMNS, t->c + i * t->c_stride, columns * sizeof *part);
    if (columns <= (size_t)HALF * VECTOR_LANES)
        tile_of_height(&whole, rows, HALF, add);
    else
        tile_of_height(&whole, rows, TILE_VECTORS, add);
    for (size_t i = 0; i < rows; i++)
        memcpy(t->c + i * t->c_stride, part + i * TILE_COLUMNS, columns * sizeof *part);
}

// a_step: a constant; a_row: one, too, for a panel.
static inline __attribute__((always_inline)) void tile_of_largest(struct matmul_tile t, size_t a_row, size_t a_step,
                                                                  bool add)
{
    t.a_row = a_row;
    t.a_step = a_step;
    if (add)
        tile_make(&t, TILE_ROWS, TILE_VECTORS, TILE_STEPS, true);
    else
        tile_make(&t, TILE_ROWS, TILE_VECTORS, TILE_STEPS, false);
}

static void tile_of_strips(const struct matmul_panels *p, size_t rows, size_t columns, const float *a, const float *b,
                           float *c)
{
    const struct matmul_tile tile = {p->k, a, p->a_row, p->a_step, b, TILE_COLUMNS, c, p->c_stride};
    if (columns < TILE_COLUMNS)
        tile_at_edge(&tile, rows, columns, p->add);
    else if (rows == TILE_ROWS && p->a_step == TILE_ROWS)  // of a panel
        tile_of_largest(tile, 1, TILE_ROWS, p->add);
    else if (rows == TILE_ROWS && p->a_step == 1)  // of rows as they lie
        tile_of_largest(tile, p->a_row, 1, p->add);
    else
        tile_of_height(&tile, rows, TILE_VECTORS, p->add);
}

static void kernel_matmul_panels(const struct matmul_panels *p)
{
    const float *b = p->b;
    for (size_t j = 0; j < p->n; j += TILE_COLUMNS, b += matmul_strip(TILE_COLUMNS, p->k)) {
        const float *a = p->a;
        for (size_t i = 0; i < p->m; i += p->height, a += p->a_strip) {
            for (size_t next = i + p->height; next < i + 2 * p->height && next < p->m; next++)
                for (size_t e = 0; e < TILE_COLUMNS; e += CACHE_LINE_ELEMENTS)
                    __builtin_prefetch(p->c + next * p->c_stride + j + e, 1);
            tile_of_strips(p, p->m - i < p->height ? p->m - i : p->height,
                           p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS, a, b, p->c + i * p->c_stride + j);
        }
    }
}

// Operands that do not move are loaded once. The chains begin with different numbers, and the compiler knows none of
// their factors, so that each is computed.
static float kernel_matmul_registers(size_t k)
{
    volatile float one = 1;
    float a = one, b[TILE_COLUMNS], c[TILE_ROWS * TILE_COLUMNS], least = INFINITY;
    for (size_t j = 0; j < TILE_COLUMNS; j++)
        b[j] = one;
    for (size_t i = 0; i < TILE_ROWS * TILE_COLUMNS; i++)
        c[i] = (float)i;
    tile_make(&(struct matmul_tile){k, &a, 0, 0, b, 0, c, TILE_COLUMNS}, TILE_ROWS, TILE_VECTORS, TILE_STEPS, true);
    for (size_t i = 0; i < TILE_ROWS * TILE_COLUMNS; i++)
        least = c[i] - (float)i < least ? c[i] - (float)i : least;
    return least;
}

// Small products of operands as they lie, for attention.

// All rows of `vectors` vectors of columns, a constant.
static inline __attribute__((always_inline)) void columns_add(struct matmul_tile t, size_t m, size_t vectors)
{
    size_t i = 0;
    for (; i + DIRECT_ROWS <= m; i += DIRECT_ROWS, t.a += DIRECT_ROWS * t.a_row, t.c += DIRECT_ROWS * t.c_stride)
        tile_make(&t, DIRECT_ROWS, vectors, TILE_STEPS, true);
    for (; i < m; i++, t.a += t.a_row, t.c += t.c_stride)
        tile_make(&t, 1, vectors, TILE_STEPS, true);
}

// c += op(a) b, where b is not transposed.
static void matmul_add(size_t m, size_t n, size_t k, struct matmul_operand a, struct matmul_operand b, float *c,
                       size_t c_stride)
{
    enum { WIDE = DIRECT_VECTORS * VECTOR_LANES };
    struct matmul_tile t = {k, a.data,  a.transposed ? 1 : a.stride, a.transposed ? a.stride : 1, b.data, b.stride,
                            c, c_stride};
    size_t j = 0;
    for (; j + WIDE <= n; j += WIDE, t.b += WIDE, t.c += WIDE)
        columns_add(t, m, DIRECT_VECTORS);
    for (; j + VECTOR_LANES <= n; j += VECTOR_LANES, t.b += VECTOR_LANES, t.c += VECTOR_LANES)
        columns_add(t, m, 1);
    for (size_t i = 0; i < m; i++) {
        for (size_t l = 0; l < n - j; l++) {
            float sum = t.c[i * c_stride + l];
            for (size_t x = 0; x < k; x++)
                sum = fmaf(t.a[i * t.a_row + x * t.a_step], t.b[x * t.b_stride + l], sum);
            t.c[i * c_stride + l] = sum;
        }
    }
}
