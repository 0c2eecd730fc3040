// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/norm.h"

#include "ref/arithmetic/isa.h"

#include <assert.h>
#include <math.h>

int norm_exponent(uint32_t max_bits)
{
    assert(max_bits > 0 && max_bits < 0x7f800000u);
    double max = f32_of_bits(max_bits);
    return ilogb(max * max) + 1;
}

uint32_t norm_max(enum dtype dtype, const void *values, size_t count)
{
    uint32_t max = 0;
    norm_max_of(dtype, &(struct norm_range){values, count, 0}, 1, &max);
    return max;
}

void norm_max_of(enum dtype dtype, const struct norm_range ranges[], size_t range_count, uint32_t results[])
{
    assert(dtype < DTYPE_BYTE && range_count > 0);
    isa_kernels_at(ranges[0].values)->norm_max(dtype, ranges, range_count, results);
}

void norm_accumulate(struct norm_sum *sum, enum dtype dtype, const void *values, size_t count, uint32_t max_bits)
{
    norm_accumulate_of(sum, dtype, &(struct norm_range){values, count, 0}, 1, max_bits);
}

void norm_accumulate_of(struct norm_sum sums[], enum dtype dtype, const struct norm_range ranges[], size_t range_count,
                        uint32_t max_bits)
{
    assert(sums && dtype < DTYPE_BYTE && range_count > 0);
    isa_kernels_at(ranges[0].values)->norm_accumulate(sums, dtype, ranges, range_count, max_bits);
}

double norm_finish(struct norm_sum sum, uint32_t max_bits)
{
    if (max_bits >= 0x7f800000u)
        return f32_of_bits(max_bits);
    if (max_bits == 0)
        return 0;
    // sqrt(sum x 2^(k - 52)): conversion and root are each correctly rounded, the scaling is exact.
    unsigned __int128 total = (unsigned __int128)sum.high << 64 | sum.low;
    return sqrt(ldexp((double)total, norm_exponent(max_bits) - 52));
}
