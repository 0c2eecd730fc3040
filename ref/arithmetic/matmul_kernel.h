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
// each; and that of operands as they lie, whose rows of a have one, too.
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, TILE_ROWS = 14, TILE_VECTORS = 2, DIRECT_VECTORS = 4 };
#define EACH_TILE_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, TILE_ROWS = 6, TILE_VECTORS = 2, DIRECT_VECTORS = 2 };
#define EACH_TILE_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
enum { VECTOR_BYTES = 16, TILE_ROWS = 6, TILE_VECTORS = 4, DIRECT_VECTORS = 4 };
#define EACH_TILE_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
enum { VECTOR_LANES = VECTOR_BYTES / sizeof(float), TILE_COLUMNS = TILE_VECTORS * VECTOR_LANES, DIRECT_ROWS = 4 };

typedef float vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));
typedef float quarter __attribute__((vector_size(16), aligned(sizeof(float)), may_alias));

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

// The sizes are constants, so that loops unroll.
static inline __attribute__((always_inline)) void tile_make(const struct matmul_tile *t, size_t rows, size_t vectors,
                                                            bool add)
{
    vector sum[TILE_ROWS][DIRECT_VECTORS];
    const float *a = t->a, *b = t->b;
    float *c = t->c;
    MATMUL_UNROLL
    for (size_t i = 0; i < rows; i++)
        MATMUL_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[i][v] = add ? *(const vector *)(c + i * t->c_stride + v * VECTOR_LANES) : (vector){0};
    for (size_t x = 0; x < t->k; x++, a += t->a_step, b += t->b_stride)
        MATMUL_UNROLL
    for (size_t i = 0; i < rows; i++)
        MATMUL_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[i][v] = vector_fma(a[i * t->a_row], *(const vector *)(b + v * VECTOR_LANES), sum[i][v]);
    MATMUL_UNROLL
    for (size_t i = 0; i < rows; i++)
        MATMUL_UNROLL
    for (size_t v = 0; v < vectors; v++)
        *(vector *)(c + i * t->c_stride + v * VECTOR_LANES) = sum[i][v];
}

// Four lines, each contiguous along k, into a strip.
static void pack_four(const float *in, size_t line, size_t k, float *to, size_t width)
{
    size_t x = 0;
    for (; x + 4 <= k; x += 4, in += 4, to += 4 * width) {
        quarter a = *(const quarter *)in, b = *(const quarter *)(in + line);
        quarter c = *(const quarter *)(in + 2 * line), d = *(const quarter *)(in + 3 * line);
        quarter low_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        quarter low_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        *(quarter *)to = __builtin_shufflevector(low_ab, low_cd, 0, 1, 4, 5);
        *(quarter *)(to + width) = __builtin_shufflevector(low_ab, low_cd, 2, 3, 6, 7);
        *(quarter *)(to + 2 * width) = __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5);
        *(quarter *)(to + 3 * width) = __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7);
    }
    for (; x < k; x++, in++, to += width)
        for (size_t l = 0; l < 4; l++)
            to[l] = in[l * line];
}

static void pack_along(const struct matmul_lines *from, size_t count, size_t width, size_t k, float *strip)
{
    size_t l = 0;
    for (; l + 4 <= count; l += 4)
        pack_four(from->data + l * from->line, from->line, k, strip + l, width);
    for (; l < width; l++)
        for (size_t x = 0; x < k; x++)
            strip[x * width + l] = l < count ? from->data[l * from->line + x] : 0;
}

// All strips' elements of one step, of lines that lie side by side.
static inline __attribute__((always_inline)) size_t pack_step(const float *in, size_t count, size_t width, size_t k,
                                                              float *to)
{
    size_t l = 0;
    for (; l + width <= count; l += width, to += width * k)
        memcpy(to, in + l, width * sizeof *to);
    return l;
}

static void pack_across(const struct matmul_lines *from, size_t count, size_t width, size_t k, float *panel)
{
    for (size_t x = 0; x < k; x++, panel += width) {
        const float *in = from->data + x * from->step;
        size_t done = width == TILE_COLUMNS ? pack_step(in, count, TILE_COLUMNS, k, panel)
                      : width == TILE_ROWS  ? pack_step(in, count, TILE_ROWS, k, panel)
                                            : pack_step(in, count, width, k, panel);
        float *last = panel + done * k;
        for (size_t l = done; l < count; l++)
            last[l - done] = in[l];
        for (size_t l = count; done < count && l < done + width; l++)
            last[l - done] = 0;
    }
}

static void kernel_matmul_pack(const struct matmul_lines *from, size_t count, size_t width, size_t k, float *panel)
{
    if (from->line == 1)
        pack_across(from, count, width, k, panel);
    else
        for (size_t l = 0; l < count; l += width)
            pack_along(&(struct matmul_lines){from->data + l * from->line, from->line, from->step},
                       count - l < width ? count - l : width, width, k, panel + l * k);
}

static void tile_of_height(const struct matmul_tile *t, size_t rows, bool add)
{
#define TILE_CASE(height)                                                                                              \
    case height:                                                                                                       \
        if (add)                                                                                                       \
            tile_make(t, height, TILE_VECTORS, true);                                                                  \
        else                                                                                                           \
            tile_make(t, height, TILE_VECTORS, false);                                                                 \
        break;
    switch (rows) {
        EACH_TILE_HEIGHT(TILE_CASE)
    }
#undef TILE_CASE
}

// A tile of which c has fewer columns.
static void tile_at_edge(const struct matmul_tile *t, size_t rows, size_t columns, bool add)
{
    float part[TILE_ROWS * TILE_COLUMNS] = {0};
    struct matmul_tile whole = *t;
    whole.c = part;
    whole.c_stride = TILE_COLUMNS;
    for (size_t i = 0; add && i < rows; i++)
        memcpy(part + i * TILE_COLUMNS, t->c + i * t->c_stride, columns * sizeof *part);
    tile_of_height(&whole, rows, add);
    for (size_t i = 0; i < rows; i++)
        memcpy(t->c + i * t->c_stride, part + i * TILE_COLUMNS, columns * sizeof *part);
}

static void tile_packed(const struct matmul_panels *p, size_t rows, size_t columns, const float *a, const float *b,
                        float *c)
{
    struct matmul_tile tile = {p->k, a, 1, p->height, b, TILE_COLUMNS, c, p->c_stride};
    for (size_t i = 0; i < rows; i++)
        __builtin_prefetch(c + i * p->c_stride, 1);
    if (columns < TILE_COLUMNS) {
        tile_at_edge(&tile, rows, columns, p->add);
    } else if (rows == TILE_ROWS && p->height == TILE_ROWS) {
        tile.a_step = TILE_ROWS;
        tile_make(&tile, TILE_ROWS, TILE_VECTORS, p->add);
    } else {
        tile_of_height(&tile, rows, p->add);
    }
}

// Asks for part `index` of `count` of a strip, which the next tiles multiply.
static inline void strip_expect(const float *strip, size_t elements, size_t index, size_t count)
{
    enum { LINE = 16 };  // elements
    const size_t part = (elements / LINE + count - 1) / count * LINE;
    const size_t end = (index + 1) * part < elements ? (index + 1) * part : elements;
    for (size_t e = index * part; e < end; e += LINE)
        __builtin_prefetch(strip + e, 0, 2);
}

static void kernel_matmul_panels(const struct matmul_panels *p)
{
    const size_t strip = TILE_COLUMNS * p->k, tiles = (p->m + p->height - 1) / p->height;
    for (size_t j = 0; j < p->n; j += TILE_COLUMNS)
        for (size_t t = 0; t < tiles; t++) {
            const size_t i = t * p->height;
            if (j + TILE_COLUMNS < p->n)
                strip_expect(p->b + (j + TILE_COLUMNS) * p->k, strip, t, tiles);
            tile_packed(p, p->m - i < p->height ? p->m - i : p->height,
                        p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS, p->a + i * p->k, p->b + j * p->k,
                        p->c + i * p->c_stride + j);
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
    tile_make(&(struct matmul_tile){k, &a, 0, 0, b, 0, c, TILE_COLUMNS}, TILE_ROWS, TILE_VECTORS, true);
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
        tile_make(&t, DIRECT_ROWS, vectors, true);
    for (; i < m; i++, t.a += t.a_row, t.c += t.c_stride)
        tile_make(&t, 1, vectors, true);
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
