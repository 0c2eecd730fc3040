// SPDX-License-Identifier: Apache-2.0
// The golden scales were printed by DeepSpeed's own DynamicLossScaler, at commit edaa7221.
#include "ref/optimizer/scaler.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

static struct scaler open_dynamic(unsigned power, uint64_t window, uint64_t hysteresis, bool consecutive,
                                  double minimum)
{
    struct config_loss_scale rules = {.dynamic = true,
                                      .static_scale = 1,
                                      .initial_scale_power = power,
                                      .window = window,
                                      .hysteresis = hysteresis,
                                      .consecutive_hysteresis = consecutive,
                                      .min_scale = minimum};
    struct scaler scaler;
    scaler_open(&scaler, &rules);
    return scaler;
}

// steps: 'x' for an overflow, '.' for none; expected: the scale after each.
static void expect_scales(struct scaler *scaler, const char *steps, const double *expected)
{
    for (size_t i = 0; steps[i] != '\0'; i++) {
        cr_assert_eq(scaler_update(scaler, steps[i] == 'x'), ERR_NONE);
        cr_expect_eq(scaler_scale(scaler), expected[i], "%s, step %zu: %g, expected %g", steps, i + 1,
                     scaler_scale(scaler), expected[i]);
    }
}

Test(scaler, the_scale_starts_at_two_to_the_initial_power)
{
    struct scaler scaler = open_dynamic(16, 1000, 2, false, 1);
    cr_expect_eq(scaler_scale(&scaler), 65536.0);
}

Test(scaler, growth_first_comes_at_clean_step_window_plus_one)
{
    struct scaler scaler = open_dynamic(4, 3, 2, false, 1);
    expect_scales(&scaler, ".........", (double[]){16, 16, 16, 32, 32, 32, 64, 64, 64});
}

Test(scaler, after_an_overflow_the_window_starts_anew)
{
    struct scaler scaler = open_dynamic(4, 3, 1, false, 1);
    expect_scales(&scaler, "..x..........", (double[]){16, 16, 8, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64});
}

Test(scaler, a_window_of_one_grows_from_the_second_clean_step)
{
    struct scaler scaler = open_dynamic(4, 1, 1, false, 1);
    expect_scales(&scaler, ".....x....", (double[]){16, 32, 64, 128, 256, 128, 128, 256, 512, 1024});
}

Test(scaler, hysteresis_two_lets_one_overflow_pass)
{
    struct scaler scaler = open_dynamic(8, 3, 2, false, 1);
    expect_scales(&scaler, "xx.x....x.xx", (double[]){256, 128, 128, 64, 64, 64, 64, 128, 128, 128, 64, 32});
}

Test(scaler, hysteresis_three_is_not_refilled_by_a_halving)
{
    struct scaler scaler = open_dynamic(8, 3, 3, false, 1);
    expect_scales(&scaler, "xxx.xxxxx", (double[]){256, 256, 128, 128, 64, 32, 16, 8, 4});
}

Test(scaler, growth_refills_hysteresis)
{
    struct scaler scaler = open_dynamic(8, 2, 2, false, 1);
    expect_scales(&scaler, "x.....xxx", (double[]){256, 256, 256, 512, 512, 1024, 1024, 512, 256});
}

Test(scaler, consecutive_hysteresis_is_refilled_by_each_clean_step)
{
    struct scaler consecutive = open_dynamic(8, 100, 2, true, 1);
    expect_scales(&consecutive, "x.x.x.xx.xx", (double[]){256, 256, 256, 256, 256, 256, 256, 128, 128, 128, 64});
    struct scaler plain = open_dynamic(8, 100, 2, false, 1);
    expect_scales(&plain, "x.x.x.xx.xx", (double[]){256, 256, 128, 128, 64, 64, 32, 16, 16, 8, 4});
}

Test(scaler, a_long_random_sequence_gives_the_scales_of_deepspeed)
{
    static const char STEPS[] = ".x.x..x.x.xx..xx.....x..xx..x....xxx........x......x..x.x...";
    static const signed char PLAIN[] = {30, 30, 30, 29, 29, 29, 28, 28, 27, 27, 26, 25, 25, 25, 24, 23, 23, 23, 23, 24,
                                        24, 24, 24, 24, 23, 22, 22, 22, 21, 21, 21, 21, 22, 22, 21, 20, 20, 20, 20, 21,
                                        21, 21, 22, 22, 22, 22, 22, 22, 23, 23, 23, 23, 23, 23, 22, 22, 21, 21, 21, 21};
    static const signed char CONSECUTIVE[] = {30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30,
                                              30, 30, 30, 31, 31, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32,
                                              32, 33, 33, 33, 33, 32, 32, 32, 33, 33, 34, 34, 35, 35, 35,
                                              35, 35, 36, 36, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 38};
    double plain_scales[60], consecutive_scales[60];
    for (size_t i = 0; i < 60; i++) {
        plain_scales[i] = ldexp(1, PLAIN[i]);
        consecutive_scales[i] = ldexp(1, CONSECUTIVE[i]);
    }
    struct scaler plain = open_dynamic(30, 3, 2, false, 1);
    expect_scales(&plain, STEPS, plain_scales);
    struct scaler consecutive = open_dynamic(30, 2, 3, true, 1);
    expect_scales(&consecutive, STEPS, consecutive_scales);
}

Test(scaler, the_scale_stops_at_its_minimum_even_between_powers_of_two)
{
    struct scaler scaler = open_dynamic(4, 100, 1, false, 3);
    expect_scales(&scaler, "xxx", (double[]){8, 4, 3});
}

Test(scaler, an_overflow_at_the_minimum_is_an_error_and_not_a_loop)
{
    struct scaler scaler = open_dynamic(4, 100, 1, false, 4);
    expect_scales(&scaler, "xx", (double[]){8, 4});
    cr_expect_eq(scaler_update(&scaler, true), ERR_CHECK);
    cr_expect(strstr(err_message(), "step 3: gradients overflow although the loss scale is at its minimum, 4"), "%s",
              err_message());
}

Test(scaler, at_the_minimum_hysteresis_is_used_up_before_the_error)
{
    struct scaler scaler = open_dynamic(2, 100, 3, false, 4);
    expect_scales(&scaler, "xx", (double[]){4, 4});
    cr_expect_eq(scaler_update(&scaler, true), ERR_CHECK);
}

Test(scaler, a_static_scale_never_changes)
{
    struct config_loss_scale rules = {
        .dynamic = false, .static_scale = 128, .window = 1, .hysteresis = 1, .min_scale = 1};
    struct scaler scaler;
    scaler_open(&scaler, &rules);
    expect_scales(&scaler, "..x..xx...", (double[]){128, 128, 128, 128, 128, 128, 128, 128, 128, 128});
}
