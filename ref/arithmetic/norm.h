// SPDX-License-Identifier: Apache-2.0
// The global norm, the same bits under every partition: squares are brought to a common fixed point, chosen from the
// all-reduced maximum magnitude, and added as integers.
//
// Let 2^(k-1) <= max^2 < 2^k. Every square is rounded once, to the nearest multiple of 2^(k-52); nothing else rounds
// until norm_finish. The sum is at least max^2, so its relative error is at most count x 2^-52, and the norm's at most
// count x 2^-53 plus two roundings of a double: no worse than the bound of an ordinary sum in double precision.
#ifndef ZG_NORM_H
#define ZG_NORM_H

#include "ref/arithmetic/dtype.h"

#include <stddef.h>
#include <stdint.h>

// The bits of the largest |x| as fp32 (0 for none); > 0x7f800000 says that a NaN is among them, 0x7f800000 an inf.
// The maximum of two such values, as unsigned numbers, is the value of both arrays together.
uint32_t norm_max(enum dtype dtype, const void *values, size_t count);

// A 128-bit fixed-point sum of squares, relative to the exponent of max_bits. Sums of disjoint parts are added with
// norm_add in any order.
struct norm_sum {
    uint64_t low, high;
};

// Adds the squares of values, none of which is larger than max_bits says; nothing if that is inf or NaN.
void norm_accumulate(struct norm_sum *sum, enum dtype dtype, const void *values, size_t count, uint32_t max_bits);
DTYPE_INLINE void norm_add(struct norm_sum *sum, struct norm_sum other)
{
    sum->low += other.low;
    sum->high += other.high + (sum->low < other.low);
}

// The square root of the sum, as a double; inf or NaN if max_bits says so.
double norm_finish(struct norm_sum sum, uint32_t max_bits);

// k above: the power of two that is larger than every square, for a finite max that is not 0.
int norm_exponent(uint32_t max_bits);

#endif
