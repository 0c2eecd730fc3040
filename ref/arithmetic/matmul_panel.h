// SPDX-License-Identifier: Apache-2.0
// Packed operands of products (matmul.h), which the kernels of an instruction set make and multiply. Lines are rows of
// op(a) or columns of op(b). A panel has strips of them; at each step along k a strip has its lines' elements side by
// side. A strip that has fewer lines than its width has zeros in their place.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Element x along k of line l lies at l line + x step; line or step is 1.
struct matmul_lines {
    const float *data;
    size_t line, step;
};

// Elements from the beginning of a strip to that of the next: a cache line more than a strip has, so that the same step
// of several strips lies in different sets of a cache.
static inline size_t matmul_strip(size_t width, size_t k)
{
    enum { CACHE_LINE = 16 };
    return width * k + CACHE_LINE;
}

// c (m x n) = a b, or c += a b. Strips of a have `height` rows, at most the kernels' matmul_rows: a panel's, or, with
// a_step 1, rows as they lie; element (i, x) of a strip lies at i a_row + x a_step. Strips of b have matmul_columns. c
// is not read without `add`.
struct matmul_panels {
    size_t m, n, k, height;
    const float *a;
    size_t a_row, a_step, a_strip;
    const float *b;
    float *c;
    size_t c_stride;
    bool add;
};
