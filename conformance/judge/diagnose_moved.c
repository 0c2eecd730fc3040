// SPDX-License-Identifier: Apache-2.0
// Finds gradients of other elements: all at one distance, or in another order.
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// True if all values are moved by one distance. Values from outside the row are unknown, and must be the minority.
static bool is_shifted(struct row *row)
{
    long reach = row->count < 128 ? (long)row->count : 128;
    for (long shift = -reach; shift <= reach; shift++) {
        size_t inside = 0;
        for (size_t at = 0; at < row->count; at++) {
            long from = (long)at + shift;
            bool is_inside = from >= 0 && from < (long)row->count;
            row->guess[at] = is_inside ? row->expected[from] : row->used[at];
            inside += is_inside && row->wrong_moment[at];
        }
        if (shift != 0 && inside * 2 >= row->wrong_moment_count && inside >= ROW_TELLING_COUNT && row_guessed(row))
            return true;
    }
    return false;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// True if a sorted list has a number near this one.
static bool has_near(const double *sorted, size_t count, double number)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return (low < count && value_near(sorted[low], number)) || (low > 0 && value_near(sorted[low - 1], number));
}

// True if nearly all values belong to other elements: pieces in another order. A few may coincide by chance. What
// follows from outside the row may be no number, and must be the minority.
static bool is_permuted(struct row *row)
{
    size_t moved = 0, numbers = 0;
    memcpy(row->guess, row->expected, row->count * sizeof *row->guess);
    qsort(row->guess, row->count, sizeof *row->guess, compare_numbers);
    for (size_t at = 0; at < row->count; at++) {
        numbers += row->wrong_moment[at] && isfinite(row->used[at]);
        moved += row->wrong_moment[at] && row->used[at] != 0.0 && has_near(row->guess, row->count, row->used[at]);
    }
    return moved >= ROW_TELLING_COUNT && moved * 10 >= numbers * 9 && moved * 2 >= row->wrong_moment_count;
}

bool diagnose_moved(struct row *row)
{
    return is_shifted(row) || is_permuted(row);
}
