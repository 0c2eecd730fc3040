// SPDX-License-Identifier: Apache-2.0
// The norm against an exact sum of squares, and against itself under every kind of partition.
#include "ref/arithmetic/norm.h"
#include "ref/arithmetic/dtype.h"

#include "ref/arithmetic/isa_test.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

#include <math.h>

enum { COUNT = 10000, LIMBS = 12 };

static const enum dtype FORMATS[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};

static float load(enum dtype dtype, const void *values, size_t i)
{
    return dtype == DTYPE_BF16   ? bf16_to_f32(((const struct bf16 *)values)[i])
           : dtype == DTYPE_FP16 ? fp16_to_f32(((const struct fp16 *)values)[i])
                                 : ((const float *)values)[i];
}

// Values with magnitudes from 2^low to 2^high, zeros among them.
static void fill(enum dtype dtype, void *values, size_t count, uint64_t key, int low, int high)
{
    static float wide[COUNT];
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_at(key, i);
        float fraction = 1 + (float)(bits >> 41) * 0x1p-23f;
        float value = ldexpf(fraction, low + (int)random_below(random_mix(bits), (uint64_t)(high - low)));
        wide[i] = bits % 23 == 0 ? 0 : bits & 1 ? -value : value;
    }
    dtype_narrow(dtype, wide, values, count);
}

// An exact sum of squares of fp32 values: an integer times 2^-298, the square of the smallest subnormal.
struct exact {
    uint64_t limb[LIMBS];
};

static void exact_add(struct exact *sum, float value)
{
    int exponent;
    uint64_t fraction =
        (uint64_t)ldexp(frexp(fabs((double)value), &exponent), 24);  // value = fraction x 2^(exponent-24)
    if (fraction == 0)
        return;
    uint64_t square = fraction * fraction;
    int shift = 2 * (exponent - 24) + 298;  // below 0 for a subnormal, whose square has -shift low bits of 0
    if (shift < 0) {
        square >>= -shift;
        shift = 0;
    }
    unsigned __int128 carry = (unsigned __int128)square << (shift % 64);
    for (int i = shift / 64; i < LIMBS; i++) {
        unsigned __int128 limb = (unsigned __int128)sum->limb[i] + (uint64_t)carry;
        sum->limb[i] = (uint64_t)limb;
        carry = (carry >> 64) + (limb >> 64);
    }
}

static long double exact_value(const struct exact *sum)
{
    long double value = 0;
    for (int i = LIMBS - 1; i >= 0; i--)
        value += ldexpl((long double)sum->limb[i], 64 * i - 298);
    return value;
}

static long double sum_value(struct norm_sum sum, uint32_t max_bits)
{
    int exponent = norm_exponent(max_bits) - 52;
    return ldexpl((long double)sum.high, exponent + 64) + ldexpl((long double)sum.low, exponent);
}

static bool sums_equal(struct norm_sum a, struct norm_sum b)
{
    return a.low == b.low && a.high == b.high;
}

struct measured {
    uint32_t max;
    struct norm_sum sum;
    struct exact exact;
};

static struct measured measure(enum dtype dtype, const void *values, size_t count)
{
    struct measured out = {.max = norm_max(dtype, values, count)};
    norm_accumulate(&out.sum, dtype, values, count, out.max);
    for (size_t i = 0; i < count && out.max < 0x7f800000u; i++)
        exact_add(&out.exact, load(dtype, values, i));
    return out;
}

struct spread {
    int low, high;  // exponents
};

Test(norm, the_sum_is_within_its_bound_of_the_exact_sum)
{
    static const struct spread spreads[] = {{-3, 0}, {-14, 15}, {-40, 0}, {-149, 127}, {-149, -140}, {120, 127}};
    static float values[COUNT];
    for (EACH_ISA(isa))
        for (size_t f = 0; f < 3; f++)
            for (size_t s = 0; s < sizeof spreads / sizeof *spreads; s++)
                for (size_t count = 1; count <= COUNT; count = count * 3 + 1) {
                    enum dtype dtype = FORMATS[f];
                    fill(dtype, values, count, random_key(s, count), spreads[s].low, spreads[s].high);
                    struct measured found = measure(dtype, values, count);
                    if (found.max == 0 || found.max >= 0x7f800000u)
                        continue;  // fp16 lacks these magnitudes
                    long double truth = exact_value(&found.exact);
                    long double error = fabsl(sum_value(found.sum, found.max) - truth) / truth;
                    cr_assert(error <= (long double)count * 0x1p-52L + 0x1p-62L, "%s, 2^%d..2^%d, %zu: 2^%.1Lf",
                              dtype_name(dtype), spreads[s].low, spreads[s].high, count, log2l(error));
                    double norm = norm_finish(found.sum, found.max);
                    long double norm_error = fabsl(norm - sqrtl(truth)) / sqrtl(truth);
                    cr_assert(norm_error <= (long double)count * 0x1p-53L + 0x1p-52L);
                }
}

Test(norm, sums_of_16_bit_values_within_2_to_the_17_of_the_largest_are_exact)
{
    static uint16_t values[COUNT];
    for (EACH_ISA(isa))
        for (size_t f = 1; f < 3; f++) {
            fill(FORMATS[f], values, COUNT, 11, -14, 0);
            struct measured found = measure(FORMATS[f], values, COUNT);
            cr_expect_eq(sum_value(found.sum, found.max), exact_value(&found.exact));
        }
}

Test(norm, many_values_as_large_as_the_largest_do_not_overflow)
{
    static float values[COUNT];
    for (EACH_ISA(isa)) {
        for (size_t i = 0; i < COUNT; i++)
            values[i] = 0x1.fffp0f;
        struct measured found = measure(DTYPE_FP32, values, COUNT);
        cr_expect_eq(sum_value(found.sum, found.max), exact_value(&found.exact));
    }
}

Test(norm, squares_of_less_than_half_a_unit_are_lost_and_of_more_are_kept)
{
    static float values[COUNT];
    for (EACH_ISA(isa)) {
        struct norm_sum below = {0}, above = {0};
        values[0] = 1;  // squares are in [2^0, 2^1): the unit is 2^-51, half of it is 2^-52
        for (size_t i = 1; i < COUNT; i++)
            values[i] = nextafterf(0x1p-26f, 0);
        norm_accumulate(&below, DTYPE_FP32, values, COUNT, f32_bits(1));
        for (size_t i = 1; i < COUNT; i++)
            values[i] = nextafterf(0x1p-26f, 1);
        norm_accumulate(&above, DTYPE_FP32, values, COUNT, f32_bits(1));
        cr_expect_eq(below.low, 1ull << 51);
        cr_expect_eq(above.low, (1ull << 51) + COUNT - 1);
    }
}

Test(norm, every_partition_and_order_and_processor_gives_the_same_bits)
{
    static float values[COUNT];
    for (size_t f = 0; f < 3; f++)
        for (uint64_t trial = 0; trial < 60; trial++) {
            enum dtype dtype = FORMATS[f];
            fill(dtype, values, COUNT, trial, trial % 2 ? -24 : -8, trial % 3 ? 0 : 12);
            isa_set(isa_best());
            uint32_t max = norm_max(dtype, values, COUNT);
            struct norm_sum whole = {0}, parts = {0}, reversed = {0};
            norm_accumulate(&whole, dtype, values, COUNT, max);
            // Up to 8 ranks own parts of any length, which may be 0; each rank uses its own build of the kernels.
            struct norm_sum owned[8] = {0};
            uint32_t maxima = 0;
            size_t begin = 0;
            for (size_t rank = 0; rank < 8; rank++) {
                size_t end = rank == 7 ? COUNT : begin + random_below(random_at(trial, rank), COUNT - begin + 1);
                const char *at = (const char *)values + begin * dtype_bytes(dtype);
                isa_test_next((int)random_below(random_at(trial, 100 + rank), ISA_COUNT) - 1);
                uint32_t part_max = norm_max(dtype, at, end - begin);
                maxima = part_max > maxima ? part_max : maxima;
                norm_accumulate(&owned[rank], dtype, at, end - begin, max);
                begin = end;
            }
            for (size_t rank = 0; rank < 8; rank++) {
                norm_add(&parts, owned[rank]);
                norm_add(&reversed, owned[7 - rank]);
            }
            cr_assert_eq(maxima, max);
            cr_assert(sums_equal(whole, parts) && sums_equal(whole, reversed), "%s, trial %d", dtype_name(dtype),
                      (int)trial);
        }
}

Test(norm, additions_carry_into_the_upper_word)
{
    struct norm_sum sum = {.low = UINT64_MAX, .high = 1};
    norm_add(&sum, (struct norm_sum){.low = 2, .high = 3});
    cr_expect_eq(sum.low, 1);
    cr_expect_eq(sum.high, 5);
    // The unit of a maximum of 1 is 2^-51, so this is the sum 2^76.
    struct norm_sum many = {.low = 0, .high = 1ull << 63};
    cr_expect_eq(norm_finish(many, f32_bits(1)), 0x1p38);
}

Test(norm, the_maximum_is_that_of_a_plain_loop_at_every_length_and_alignment)
{
    static float values[200];
    for (EACH_ISA(isa))
        for (size_t f = 0; f < 3; f++)
            for (size_t offset = 0; offset < 16; offset++)
                for (size_t count = 0; count < 150; count++) {
                    fill(FORMATS[f], values, 200, random_key(offset, count), -14, 15);
                    uint32_t max = 0;
                    for (size_t i = offset; i < offset + count; i++) {
                        uint32_t bits = f32_bits(fabsf(load(FORMATS[f], values, i)));
                        max = bits > max ? bits : max;
                    }
                    const char *at = (const char *)values + offset * dtype_bytes(FORMATS[f]);
                    cr_assert_eq(norm_max(FORMATS[f], at, count), max);
                    struct norm_sum sum = {0}, one_by_one = {0};
                    norm_accumulate(&sum, FORMATS[f], at, count, max);
                    for (size_t i = 0; i < count; i++)
                        norm_accumulate(&one_by_one, FORMATS[f], at + i * dtype_bytes(FORMATS[f]), 1, max);
                    cr_assert(sums_equal(sum, one_by_one), "%s, %zu values at %zu", dtype_name(FORMATS[f]), count,
                              offset);
                }
}

Test(norm, the_norm_of_one_value_is_its_magnitude)
{
    for (EACH_ISA(isa))
        for (uint64_t i = 0; i < 100000; i++) {
            float value = f32_of_bits((uint32_t)random_at(3, i));
            if (!isfinite(value))
                continue;
            struct measured found = measure(DTYPE_FP32, &value, 1);
            cr_assert_eq(norm_finish(found.sum, found.max), fabs((double)value), "0x%08x", f32_bits(value));
        }
}

Test(norm, zeros_have_the_norm_zero)
{
    float values[100] = {0, -0.0f};
    struct measured found = measure(DTYPE_FP32, values, 100);
    cr_expect_eq(found.max, 0);
    cr_expect_eq(norm_finish(found.sum, found.max), 0);
}

Test(norm, an_infinity_or_nan_anywhere_shows)
{
    for (EACH_ISA(isa))
        for (size_t f = 0; f < 3; f++)
            for (size_t at = 0; at < 100; at++)
                for (int nan = 0; nan < 2; nan++) {
                    float wide[100], values[100];
                    for (size_t i = 0; i < 100; i++)
                        wide[i] = i == at ? (nan ? -NAN : -INFINITY) : 1;
                    dtype_narrow(FORMATS[f], wide, values, 100);
                    struct measured found = measure(FORMATS[f], values, 100);
                    double norm = norm_finish(found.sum, found.max);
                    cr_assert(nan ? found.max > 0x7f800000u && isnan(norm) : found.max == 0x7f800000u && isinf(norm));
                }
}
