// SPDX-License-Identifier: Apache-2.0
// Rows of an array in host memory, shared by threads.
#pragma once

#include "ref/arithmetic/accelerator.h"

#include <stddef.h>

// Rows that one thread works on at a time, and the fewest elements for which it is worth waking others. An accelerator
// shares its rows itself.
enum { SHARED_ROWS = 64, SHARED_ELEMENTS = 1 << 18 };

static inline size_t rows_of_block(const void *address, size_t row_count)
{
    return accelerator_of(address) || row_count < SHARED_ROWS ? row_count : SHARED_ROWS;
}

// Calls `kernel`, which works on `count` rows from `row` on, for all rows. The caller's variables have the names
// row_count and width: a pragma's text is not expanded.
#define SHARE_ROWS(address, row_count, width, kernel)                                                                  \
    do {                                                                                                               \
        const size_t block = rows_of_block(address, row_count);                                                        \
        _Pragma("omp parallel for schedule(static) if((row_count) * (width) >= SHARED_ELEMENTS)") for (size_t row = 0; \
                                                                                                       row <           \
                                                                                                       (row_count);    \
                                                                                                       row += block)   \
        {                                                                                                              \
            const size_t count = (row_count)-row < block ? (row_count)-row : block;                                    \
            kernel;                                                                                                    \
        }                                                                                                              \
    } while (0)
