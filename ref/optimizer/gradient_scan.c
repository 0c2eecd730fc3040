// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/gradient_scan.h"

#include "base/err.h"
#include "ref/arithmetic/dtype.h"

#include <math.h>
#include <string.h>

int gradient_exponent(uint32_t max_bits)
{
    return max_bits > 0 ? norm_exponent(max_bits) : 0;
}

// A magnitude whose square lies in [2^(k-1), 2^k); 0 or infinity, which add nothing, where fp32 has none.
static uint32_t magnitude_of(int k)
{
    return f32_bits(k % 2 != 0 ? ldexpf(1.0f, (k - 1) / 2) : ldexpf(1.5f, k / 2 - 1));
}

int gradient_scan_maximum(void *arguments)
{
    struct gradient_scan *a = arguments;
    for (size_t i = 0; i < a->range_count; i++)
        a->max_out[a->ranges[i].into] = 0;
    norm_max_of(a->dtype, a->ranges, a->range_count, a->max_out);
    return ERR_NONE;
}

int gradient_scan_squares(void *arguments)
{
    struct gradient_scan *a = arguments;
    for (size_t i = 0; a->first && i < a->range_count; i++)
        a->sum_out[a->ranges[i].into] = (struct norm_sum){0};
    norm_accumulate_of(a->sum_out, a->dtype, a->ranges, a->range_count, a->max_bits);
    return ERR_NONE;
}

int gradient_lowest_guess(uint32_t own_max_bits, int last_exponent)
{
    int least = last_exponent - OPTIMIZER_GUESSES / 2 - 1;
    bool has_own = own_max_bits > 0 && own_max_bits < f32_bits(INFINITY);
    return has_own && gradient_exponent(own_max_bits) > least ? gradient_exponent(own_max_bits) : least;
}

// Sums block by block, so that each is read from memory once.
int gradient_scan_guesses(void *arguments)
{
    enum { BLOCK = 4096 };
    struct gradient_scan *a = arguments;
    int lowest = gradient_lowest_guess(*a->max_in, a->last_exponent);
    if (a->first)
        memset(a->sum_out, 0, (size_t)a->result_count * sizeof *a->sum_out);
    for (const struct norm_range *r = a->ranges; r < a->ranges + a->range_count; r++)
        for (size_t begin = 0; begin < r->count; begin += BLOCK) {
            size_t count = r->count - begin < BLOCK ? r->count - begin : BLOCK;
            const char *from = (const char *)r->values + begin * dtype_bytes(a->dtype);
            for (int i = 0; i < a->result_count; i++)
                norm_accumulate(&a->sum_out[i], a->dtype, from, count, magnitude_of(lowest + i));
        }
    return ERR_NONE;
}
