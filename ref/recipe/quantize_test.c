// SPDX-License-Identifier: Apache-2.0
// Blocks by hand: scale, codes and what they unpack to.
#include "ref/recipe/quantize.h"

#include "ref/arithmetic/dtype.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static float scale_in(const unsigned char *packed)
{
    float scale;
    memcpy(&scale, packed, sizeof scale);
    return scale;
}

static void expect_bits(const float *actual, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(f32_bits(actual[i]), f32_bits(expected[i]), "element %zu is %g, expected %g", i, (double)actual[i],
                     (double)expected[i]);
}

Test(quantize, packed_bytes_have_a_scale_for_each_block)
{
    cr_expect_eq(quantize_bytes(0, 8, 8), 0);
    cr_expect_eq(quantize_bytes(1, 8, 8), 5);
    cr_expect_eq(quantize_bytes(8, 8, 8), 12);
    cr_expect_eq(quantize_bytes(9, 8, 8), 17);
    cr_expect_eq(quantize_bytes(31, 8, 8), 47);
    cr_expect_eq(quantize_bytes(1, 8, 4), 5);
    cr_expect_eq(quantize_bytes(8, 8, 4), 8);
    cr_expect_eq(quantize_bytes(9, 8, 4), 13);
    cr_expect_eq(quantize_bytes(31, 8, 4), 32);
    cr_expect_eq(quantize_bytes(4096, 2048, 8), 2 * 2052);
    cr_expect_eq(quantize_bytes(2049, 2048, 4), 1028 + 5);
}

// With 127 as the largest magnitude the scale is 1, and codes are the elements, rounded to even.
Test(quantize, eight_bits_round_ties_to_even)
{
    const float x[] = {127, -127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.49f, 126.5f, -0.0f};
    const float expected[] = {127, -127, 0, 2, 2, 0, -2, -2, 0, 126, 0};
    enum { COUNT = sizeof x / sizeof x[0] };
    unsigned char packed[4 + COUNT];
    float y[COUNT];
    cr_assert_eq(quantize_bytes(COUNT, 16, 8), sizeof packed);
    quantize_block(x, COUNT, 8, packed);
    cr_expect_eq(scale_in(packed), 1.0f);
    cr_expect_eq(packed[4], 127);
    cr_expect_eq(packed[5], 0x81);
    cr_expect_eq(packed[7], 2);
    dequantize_block(packed, COUNT, 8, y);
    expect_bits(y, expected, COUNT);
}

// Two codes a byte, the first in the lower bits; an odd last one leaves the upper bits 0.
Test(quantize, four_bits_lie_two_a_byte)
{
    const float x[] = {3.5f, -3.5f, 0.25f, 0.75f, 1.25f, -0.5f, -3.0f};
    const float expected[] = {3.5f, -3.5f, 0, 1, 1, -0.5f, -3.0f};
    const unsigned char codes[] = {0x97, 0x20, 0xf2, 0x0a};
    unsigned char packed[8];
    float y[7];
    cr_assert_eq(quantize_bytes(7, 8, 4), sizeof packed);
    quantize_block(x, 7, 4, packed);
    cr_expect_eq(scale_in(packed), 0.5f);
    cr_expect_arr_eq(packed + 4, codes, sizeof codes);
    dequantize_block(packed, 7, 4, y);
    expect_bits(y, expected, 7);
}

Test(quantize, one_element_and_zeros_survive)
{
    unsigned char packed[16];
    float y[8];
    for (int bits = 4; bits <= 8; bits += 4) {
        // Magnitudes whose scale is exact.
        const float one[] = {-0x1p-20f * (bits == 8 ? 127 : 7)};
        quantize_block(one, 1, bits, packed);
        dequantize_block(packed, 1, bits, y);
        expect_bits(y, one, 1);
        const float zeros[8] = {0, -0.0f}, expected[8] = {0};
        quantize_block(zeros, 8, bits, packed);
        cr_expect_eq(f32_bits(scale_in(packed)), 0);
        dequantize_block(packed, 8, bits, y);
        expect_bits(y, expected, 8);
    }
}

// The least positive number has no scale in fp32, and a scale that rounds down cannot exceed the largest code.
Test(quantize, subnormal_blocks_stay_in_range)
{
    const float least[] = {0x1p-149f}, few[] = {180 * 0x1p-149f, -180 * 0x1p-149f};
    unsigned char packed[16];
    float y[2];
    quantize_block(least, 1, 8, packed);
    dequantize_block(packed, 1, 8, y);
    cr_expect_eq(y[0], 0.0f);
    quantize_block(few, 2, 8, packed);
    cr_expect_eq(scale_in(packed), 0x1p-149f);
    dequantize_block(packed, 2, 8, y);
    cr_expect_eq(y[0], 127 * 0x1p-149f);
    cr_expect_eq(y[1], -127 * 0x1p-149f);
}

Test(quantize, a_block_that_is_not_finite_becomes_nan)
{
    const float bad[] = {INFINITY, -INFINITY, NAN};
    unsigned char packed[16];
    float y[5];
    for (int i = 0; i < 3; i++)
        for (int bits = 4; bits <= 8; bits += 4) {
            const float x[] = {1, 2, bad[i], 0, 4};
            quantize_block(x, 5, bits, packed);
            dequantize_block(packed, 5, bits, y);
            for (int k = 0; k < 5; k++)
                cr_expect(isnan(y[k]), "element %d next to %g is %g", k, (double)bad[i], (double)y[k]);
        }
}

// Every error is at most half a scale, and the largest element is restored in 16 bits.
Test(quantize, errors_are_at_most_half_a_scale)
{
    enum { COUNT = 31 };
    float x[COUNT], y[COUNT];
    unsigned char packed[4 + COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = sinf((float)(i * i)) * 3.3f;
    for (int bits = 4; bits <= 8; bits += 4) {
        quantize_block(x, COUNT, bits, packed);
        dequantize_block(packed, COUNT, bits, y);
        float scale = scale_in(packed), largest = 0, came_back = 0;
        for (int i = 0; i < COUNT; i++) {
            cr_expect_leq(fabsf(x[i] - y[i]), 0.5001f * scale, "element %d", i);
            if (fabsf(x[i]) > largest) {
                largest = fabsf(x[i]);
                came_back = fabsf(y[i]);
            }
        }
        cr_expect_float_eq(largest, came_back, 1e-6f * largest);
    }
}
