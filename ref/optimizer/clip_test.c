// SPDX-License-Identifier: Apache-2.0
// The golden coefficients come from exact rational arithmetic with one rounding to fp32 an operation.
#include "ref/optimizer/clip.h"

#include "ref/arithmetic/dtype.h"

#include <criterion/criterion.h>

#include <float.h>
#include <math.h>

struct golden {
    double norm, max_norm;
    uint32_t deepspeed, torch;
};

static const struct golden GOLDEN[] = {
    {2.0, 1.0, 0x3efffff8, 0x3efffff8},         {3.0, 1.0, 0x3eaaaaa7, 0x3eaaaaa7},
    {1.0, 1.0, 0x3f7ffff0, 0x3f7ffff0},         {0.9999995, 1.0, 0x3f7ffff8, 0x3f7ffff8},
    {7.3, 0.3, 0x3d285429, 0x3d285429},         {1.1, 0.7, 0x3f22e8b1, 0x3f22e8b1},
    {1234.5678, 0.1, 0x38a9de8c, 0x38a9de8d},   {1e-07, 1e-08, 0x3c14f209, 0x3c14f20a},
    {0.025712, 0.0124, 0x3ef6e8ff, 0x3ef6e8fd}, {678.484464, 9.32, 0x3c610f0c, 0x3c610f0c},
    {3e38, 1.0, 0x00244bfa, 0x00244bfa},
};

Test(clip, coefficients_have_the_bits_of_exact_arithmetic_rounded_after_each_operation)
{
    for (size_t i = 0; i < sizeof GOLDEN / sizeof *GOLDEN; i++) {
        const struct golden *g = &GOLDEN[i];
        uint32_t deepspeed = f32_bits(clip_coefficient(CLIP_DEEPSPEED, g->norm, g->max_norm));
        uint32_t torch = f32_bits(clip_coefficient(CLIP_TORCH, g->norm, g->max_norm));
        cr_expect_eq(deepspeed, g->deepspeed, "norm %g, max %g: 0x%08x", g->norm, g->max_norm, deepspeed);
        cr_expect_eq(torch, g->torch, "norm %g, max %g: 0x%08x", g->norm, g->max_norm, torch);
    }
}

Test(clip, the_two_forms_differ_somewhere)
{
    cr_expect_neq(clip_coefficient(CLIP_DEEPSPEED, 1234.5678, 0.1), clip_coefficient(CLIP_TORCH, 1234.5678, 0.1));
}

Test(clip, a_norm_below_the_limit_is_multiplied_by_exactly_one_and_every_norm_without_a_limit)
{
    const double below[] = {0, 1e-30, 0.5, 0.999, 0.999999}, any[] = {0, 1, 1e30, INFINITY, NAN};
    for (enum clip_form form = CLIP_DEEPSPEED; form <= CLIP_TORCH; form++)
        for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
            cr_expect_eq(f32_bits(clip_coefficient(form, below[i], 1.0)), 0x3f800000);
            cr_expect_eq(f32_bits(clip_coefficient(form, any[i], 0)), 0x3f800000);
        }
}

Test(clip, clipping_never_enlarges_and_leaves_a_norm_of_at_most_the_limit)
{
    for (double norm = 1e-6; norm < 1e6; norm *= 1.37) {
        for (enum clip_form form = CLIP_DEEPSPEED; form <= CLIP_TORCH; form++) {
            float coefficient = clip_coefficient(form, norm, 0.25);
            cr_expect_leq(coefficient, 1.0f);
            cr_expect_leq(coefficient * norm, 0.25 * (1 + 3 * (double)FLT_EPSILON), "norm %g", norm);
        }
    }
}

Test(clip, an_infinite_norm_gives_zero_and_a_nan_stays_visible)
{
    for (enum clip_form form = CLIP_DEEPSPEED; form <= CLIP_TORCH; form++) {
        cr_expect_eq(clip_coefficient(form, INFINITY, 1.0), 0.0f);
        cr_expect_eq(clip_coefficient(form, 1e39, 1.0), 0.0f);
        cr_expect(isnan(clip_coefficient(form, NAN, 1.0)));
    }
}
