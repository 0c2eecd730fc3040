// SPDX-License-Identifier: Apache-2.0
// E4M3 by hand: every code, ties, both ends, and scales.
#include "ref/recipe/e4m3.h"

#include <criterion/criterion.h>
#include <math.h>

static float through(float x, float scale)
{
    unsigned char code;
    float y;
    e4m3_pack(&x, 1, scale, &code);
    e4m3_unpack(&code, 1, scale, &y);
    return y;
}

// All 126 positive values and their negatives, 0 to 448, in their order, and NaN last.
Test(e4m3, every_code_is_its_own_value)
{
    float before = -1;
    for (int code = 0; code < 256; code++) {
        unsigned char in = (unsigned char)code, out;
        float x;
        e4m3_unpack(&in, 1, 1, &x);
        e4m3_pack(&x, 1, 1, &out);
        cr_expect_eq(isnan(x), (code & 127) == 127, "code %d", code);
        cr_expect(out == in, "code %d becomes %d", code, out);
        if (code < 127)
            cr_expect_gt(x, before, "code %d", code);
        before = x;
    }
    const unsigned char some[] = {0x01, 0x07, 0x08, 0x38, 0x3c, 0x7e, 0xfe, 0x80};
    const float values[] = {0x1p-9f, 7 * 0x1p-9f, 0x1p-6f, 1, 1.5f, 448, -448, -0.0f};
    for (size_t i = 0; i < sizeof some; i++) {
        float x;
        e4m3_unpack(&some[i], 1, 1, &x);
        cr_expect(x == values[i] && signbit(x) == signbit(values[i]), "code 0x%02x is %g", some[i], (double)x);
    }
}

// Between two neighbours the middle goes to the even one, what is next to the middle to the nearer.
Test(e4m3, ties_go_to_even)
{
    for (unsigned char code = 0; code < 126; code++) {
        unsigned char next = (unsigned char)(code + 1);
        float low, high;
        e4m3_unpack(&code, 1, 1, &low);
        e4m3_unpack(&next, 1, 1, &high);
        float middle = (low + high) / 2;
        cr_expect_eq(through(middle, 1), code % 2 ? high : low, "behind code %d", code);
        cr_expect_eq(through(nextafterf(middle, 0), 1), low, "behind code %d", code);
        cr_expect_eq(through(nextafterf(middle, 500), 1), high, "behind code %d", code);
        cr_expect_eq(through(-middle, 1), code % 2 ? -high : -low, "behind code %d", code);
    }
    cr_expect_eq(through(1e30f, 1), 448);
    cr_expect_eq(through(-460, 1), -448);
}

Test(e4m3, a_scale_takes_the_largest_to_448)
{
    const float x[] = {0.1f, -3, 0.75f}, none[] = {0, -0.0f};
    cr_expect_eq(e4m3_amax(x, 3), 3);
    cr_expect_eq(e4m3_amax(x, 0), 0);
    cr_expect_eq(e4m3_scale(3), 448.0f / 3);
    cr_expect_eq(e4m3_scale(0), 448.0f / 1e-12f);
    cr_expect_eq(through(-3, e4m3_scale(3)), -448.0f / (448.0f / 3));
    cr_expect_eq(through(none[1], e4m3_scale(e4m3_amax(none, 2))), 0);
    cr_expect_eq(e4m3_larger(2, 5), 5);
    cr_expect_eq(e4m3_larger(5, 2), 5);
}

Test(e4m3, what_is_not_finite_makes_the_tensor_nan)
{
    const float x[] = {1, INFINITY, 2}, y[] = {NAN, 1};
    cr_expect(isnan(e4m3_amax(x, 3)) && isnan(e4m3_amax(y, 2)));
    cr_expect(isnan(e4m3_larger(NAN, 1)) && isnan(e4m3_larger(1, NAN)));
    cr_expect(isnan(through(1, e4m3_scale(e4m3_amax(x, 3)))));
}
