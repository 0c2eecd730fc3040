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

// c (m x n) = a b, or c += a b: strips of a have `height` lines, at most the kernels' matmul_rows; those of b
// matmul_columns. c is not read without `add`.
struct matmul_panels {
    size_t m, n, k, height;
    const float *a, *b;
    float *c;
    size_t c_stride;
    bool add;
};
