// SPDX-License-Identifier: Apache-2.0
// Series with and without changes.
#include "results/page/history.h"

#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

#include <math.h>

// Values around a level, uniform within 3 %.
static void level(double *values, size_t begin, size_t end, double centre)
{
    for (size_t i = begin; i < end; i++)
        values[i] = centre * (1 + 0.06 * ((double)(random_at(7, i) >> 11) * 0x1p-53 - 0.5));
}

Test(change_point, noise_has_no_change)
{
    double values[400];
    struct change_point found[CHANGE_MAX];
    level(values, 0, 400, 40);
    for (size_t count = 0; count <= 400; count += 20)
        cr_expect_eq(change_points_find(values, count, found), 0, "%zu values", count);
    for (size_t i = 0; i < 400; i++)
        values[i] = 40;
    cr_expect_eq(change_points_find(values, 400, found), 0, "a constant");
}

Test(change_point, a_step_is_found_where_it_is)
{
    double values[40];
    struct change_point found[CHANGE_MAX];
    for (size_t at = 8; at <= 32; at++) {
        level(values, 0, at, 40);
        level(values, at, 40, 34);
        cr_assert_eq(change_points_find(values, 40, found), 1, "at %zu", at);
        cr_expect_eq(found[0].at, at);
        cr_expect_float_eq(found[0].before, 40, 1);
        cr_expect_float_eq(found[0].after, 34, 1);
        cr_expect_lt(found[0].p, CHANGE_LEVEL);
    }
}

Test(change_point, several_steps_come_in_order_with_the_medians_between_them)
{
    double values[60];
    struct change_point found[CHANGE_MAX];
    level(values, 0, 20, 40);
    level(values, 20, 40, 50);
    level(values, 40, 60, 40);
    cr_assert_eq(change_points_find(values, 60, found), 2);
    cr_expect(found[0].at == 20 && found[1].at == 40);
    cr_expect_float_eq(found[0].after, 50, 1);
    cr_expect_float_eq(found[1].before, 50, 1);
}

Test(change_point, few_values_one_far_off_and_small_steps_are_no_changes)
{
    double values[40];
    struct change_point found[CHANGE_MAX];
    level(values, 0, 40, 40);
    values[20] = 4;
    cr_expect_eq(change_points_find(values, 40, found), 0, "one value far off");
    for (size_t i = 0; i < 40; i++)
        values[i] = i < 20 ? 40 : 40.4;
    cr_expect_eq(change_points_find(values, 40, found), 0, "one percent");
    for (size_t i = 0; i < 6; i++)
        values[i] = i < 3 ? 40 : 20;
    cr_expect_eq(change_points_find(values, 6, found), 0, "three values on each side may be chance");
    for (size_t i = 0; i < 40; i++)
        values[i] = i % 2 ? 1.7e308 : 1;
    cr_expect_eq(change_points_find(values, 40, found), 0, "sums of deviations that overflow");
}
