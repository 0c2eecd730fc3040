// SPDX-License-Identifier: Apache-2.0
// Panels of a product's operands (matmul_panel.h), by the including file's instruction set and for its TILE_ROWS and
// TILE_COLUMNS.
#pragma once

#include "ref/arithmetic/matmul_panel.h"

#include <string.h>

typedef float quarter __attribute__((vector_size(16), aligned(sizeof(float)), may_alias));
typedef float eighth __attribute__((vector_size(8), aligned(sizeof(float)), may_alias));

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

static void pack_two(const float *in, size_t line, size_t k, float *to, size_t width)
{
    size_t x = 0;
    for (; x + 4 <= k; x += 4, in += 4, to += 4 * width) {
        quarter a = *(const quarter *)in, b = *(const quarter *)(in + line);
        quarter low = __builtin_shufflevector(a, b, 0, 4, 1, 5), high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        *(eighth *)to = __builtin_shufflevector(low, low, 0, 1);
        *(eighth *)(to + width) = __builtin_shufflevector(low, low, 2, 3);
        *(eighth *)(to + 2 * width) = __builtin_shufflevector(high, high, 0, 1);
        *(eighth *)(to + 3 * width) = __builtin_shufflevector(high, high, 2, 3);
    }
    for (; x < k; x++, in++, to += width) {
        to[0] = in[0];
        to[1] = in[line];
    }
}

static void pack_along(const struct matmul_lines *from, size_t count, size_t width, size_t k, float *strip)
{
    size_t l = 0;
    for (; l + 4 <= count; l += 4)
        pack_four(from->data + l * from->line, from->line, k, strip + l, width);
    for (; l + 2 <= count; l += 2)
        pack_two(from->data + l * from->line, from->line, k, strip + l, width);
    for (; l < width; l++)
        for (size_t x = 0; x < k; x++)
            strip[x * width + l] = l < count ? from->data[l * from->line + x] : 0;
}

// All strips' elements of one step, of lines that lie side by side.
static inline __attribute__((always_inline)) size_t pack_step(const float *in, size_t count, size_t width, size_t k,
                                                              float *to)
{
    size_t l = 0;
    for (; l + width <= count; l += width, to += matmul_strip(width, k))
        memcpy(to, in + l, width * sizeof *to);
    return l;
}

// The processor foresees neither the next steps, nor where the next lines begin: each is short, and far from the
// others.
enum { EXPECTED_STEPS = 8, EXPECTED_ELEMENTS = 64, CACHE_LINE_ELEMENTS = 16 };

static inline void expect_elements(const float *from, size_t count)
{
    for (size_t e = 0; e < count; e += CACHE_LINE_ELEMENTS)
        __builtin_prefetch(from + e);
}

static void pack_across(const struct matmul_lines *from, size_t count, size_t width, size_t k, float *panel)
{
    for (size_t x = 0; x < k; x++, panel += width) {
        const float *in = from->data + x * from->step;
        if (x + EXPECTED_STEPS < k)
            expect_elements(in + EXPECTED_STEPS * from->step, count);
        size_t done = width == TILE_COLUMNS ? pack_step(in, count, TILE_COLUMNS, k, panel)
                      : width == TILE_ROWS  ? pack_step(in, count, TILE_ROWS, k, panel)
                                            : pack_step(in, count, width, k, panel);
        float *last = panel + done / width * matmul_strip(width, k);
        for (size_t l = done; l < count; l++)
            last[l - done] = in[l];
        for (size_t l = count; done < count && l < done + width; l++)
            last[l - done] = 0;
    }
}

static void kernel_matmul_pack(const struct matmul_lines *from, size_t count, size_t width, size_t k, float *panel)
{
    if (from->line == 1) {
        pack_across(from, count, width, k, panel);
        return;
    }
    for (size_t l = 0; l < count; l += width, panel += matmul_strip(width, k)) {
        for (size_t next = l + width; next < l + 2 * width && next < count; next++)
            expect_elements(from->data + next * from->line, k < EXPECTED_ELEMENTS ? k : EXPECTED_ELEMENTS);
        const struct matmul_lines strip = {from->data + l * from->line, from->line, from->step};
        pack_along(&strip, count - l < width ? count - l : width, width, k, panel);
    }
}
