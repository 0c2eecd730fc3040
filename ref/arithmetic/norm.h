// SPDX-License-Identifier: Apache-2.0
// The global norm, with the same bits under every partition: squares are converted to a common fixed point, which the
// all-reduced maximum magnitude determines, and added as integers.
//
// Let 2^(k-1) <= max^2 < 2^k. Every square is rounded once, to the nearest multiple of 2^(k-52); nothing else rounds
// until norm_finish. The sum is at least max^2, so its relative error is at most count x 2^-52, and the norm's at most
// count x 2^-53 plus two roundings of a double: no worse than the bound of an ordinary sum in double precision.
#pragma once

#include "ref/arithmetic/dtype_element.h"

#include <stddef.h>
#include <stdint.h>

// Returns the bits of the largest |x| as fp32: 0 for no values, 0x7f800000 if there is an infinity, more if there is a
// NaN. The larger of two results, compared as unsigned numbers, is the result for both arrays together.
uint32_t norm_max(enum dtype dtype, const void *values, size_t count);

// The same for several arrays, all in one processor's memory, which an accelerator reads in one launch: each raises the
// result that it names.
struct norm_range {
    const void *values;
    size_t count, into;
};
void norm_max_of(enum dtype dtype, const struct norm_range ranges[], size_t range_count, uint32_t results[]);

// A 128-bit fixed-point sum of squares, relative to the exponent of max_bits. norm_add adds the sums of disjoint parts,
// in any order.
struct norm_sum {
    uint64_t low, high;
};

// Adds the squares of values. max_bits, from norm_max, is a bound on all of them. Adds nothing if it is inf or NaN.
void norm_accumulate(struct norm_sum *sum, enum dtype dtype, const void *values, size_t count, uint32_t max_bits);
void norm_accumulate_of(struct norm_sum sums[], enum dtype dtype, const struct norm_range ranges[], size_t range_count,
                        uint32_t max_bits);

DTYPE_INLINE void norm_add(struct norm_sum *sum, struct norm_sum other)
{
    sum->low += other.low;
    sum->high += other.high + (sum->low < other.low);
}

// Returns the square root of the sum as a double; inf or NaN if max_bits is.
double norm_finish(struct norm_sum sum, uint32_t max_bits);

// Returns k of the comment above: 2^k is larger than every square. max_bits is finite and not 0.
int norm_exponent(uint32_t max_bits);
