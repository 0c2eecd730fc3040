// SPDX-License-Identifier: Apache-2.0
// The loops of the norm. Each isa_*.c file compiles this text for its instruction set; the functions are private to it.
#include "ref/arithmetic/norm.h"

#include "ref/arithmetic/dtype_kernel.h"

#include <math.h>

// Squares that are summed in 64 bits before the 128-bit addition. Each is at most 2^52, so up to 4095 fit.
enum { NORM_BLOCK = 2048 };

static uint32_t range_max(enum dtype dtype, const void *values, size_t count)
{
    if (dtype == DTYPE_FP32) {
        const float *x = values;
        uint32_t max = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t bits = f32_bits(x[i]) & 0x7fffffffu;
            max = bits > max ? bits : max;
        }
        return max;
    }
    const struct bf16 *x = values;  // or fp16: in both, encodings order as magnitudes do
    int16_t max = 0;
    for (size_t i = 0; i < count; i++) {
        int16_t bits = (int16_t)(x[i].bits & 0x7fff);
        max = bits > max ? bits : max;
    }
    struct bf16 brain = {(uint16_t)max};
    struct fp16 half = {(uint16_t)max};
    return f32_bits(dtype == DTYPE_BF16 ? bf16_to_f32(brain) : fp16_to_f32(half));
}

static void kernel_norm_max(enum dtype dtype, const struct norm_range *ranges, size_t range_count, uint32_t *results)
{
    for (const struct norm_range *r = ranges; r < ranges + range_count; r++) {
        uint32_t max = range_max(dtype, r->values, r->count);
        results[r->into] = max > results[r->into] ? max : results[r->into];
    }
}

static uint64_t f64_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// x^2 + c. The square of an fp32 value is exact in double, so fusion changes no bit.
static double square_plus(float x, double c)
{
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return fma((double)x, (double)x, c);
#else
    return (double)x * (double)x + c;
#endif
}

// Sums the fixed-point squares of up to NORM_BLOCK values. 2^k is larger than any square, and doubles in
// [2^k, 2^(k+1)] are 2^(k-52) apart, so adding 2^k rounds a square to the fixed point and leaves it as an integer in
// the low bits.
static uint64_t norm_block_fp32(const float *restrict x, size_t count, double two_k)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += f64_bits(square_plus(x[i], two_k));
    return sum - count * f64_bits(two_k);
}

// Takes two values at a time: each half of a 32-bit word, followed by zeros, is an fp32 value.
static uint64_t norm_block_bf16(const struct bf16 *restrict x, size_t count, double two_k)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count / 2; i++) {
        uint32_t pair;
        memcpy(&pair, x + 2 * i, sizeof pair);
        sum += f64_bits(square_plus(f32_of_bits(pair << 16), two_k));
        sum += f64_bits(square_plus(f32_of_bits(pair & 0xffff0000u), two_k));
    }
    if (count % 2)
        sum += f64_bits(square_plus(bf16_to_f32(x[count - 1]), two_k));
    return sum - count * f64_bits(two_k);
}

static uint64_t norm_block(enum dtype dtype, const void *values, size_t count, double two_k)
{
    float wide[NORM_BLOCK];
    if (dtype == DTYPE_BF16)
        return norm_block_bf16(values, count, two_k);
    return norm_block_fp32(kernel_as_f32(dtype, values, wide, count), count, two_k);
}

static void kernel_norm_accumulate(struct norm_sum *sums, enum dtype dtype, const struct norm_range *ranges,
                                   size_t range_count, uint32_t max_bits)
{
    if (max_bits == 0 || max_bits >= 0x7f800000u)
        return;
    double two_k = ldexp(1, norm_exponent(max_bits));
    for (const struct norm_range *r = ranges; r < ranges + range_count; r++)
        for (size_t start = 0; start < r->count; start += NORM_BLOCK) {
            size_t block = r->count - start < NORM_BLOCK ? r->count - start : NORM_BLOCK;
            const char *from = (const char *)r->values + start * dtype_bytes(dtype);
            norm_add(&sums[r->into], (struct norm_sum){.low = norm_block(dtype, from, block, two_k)});
        }
}
