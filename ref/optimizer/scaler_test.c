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

static void expect_dynamic(unsigned power, uint64_t window, uint64_t hysteresis, bool consecutive, double minimum,
                           const char *steps, const double *expected)
{
    struct scaler scaler = open_dynamic(power, window, hysteresis, consecutive, minimum);
    cr_expect_eq(scaler_scale(&scaler), ldexp(1, (int)power));
    expect_scales(&scaler, steps, expected);
}

Test(scaler, scales_are_those_of_deepspeed)
{
    // Growth first comes at clean step window + 1.
    expect_dynamic(4, 3, 2, false, 1, ".........", (double[]){16, 16, 16, 32, 32, 32, 64, 64, 64});
    // After an overflow the window starts anew.
    expect_dynamic(4, 3, 1, false, 1, "..x..........", (double[]){16, 16, 8, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64});
    // A window of one grows from the second clean step.
    expect_dynamic(4, 1, 1, false, 1, ".....x....", (double[]){16, 32, 64, 128, 256, 128, 128, 256, 512, 1024});
    // Hysteresis of two lets one overflow pass.
    expect_dynamic(8, 3, 2, false, 1, "xx.x....x.xx", (double[]){256, 128, 128, 64, 64, 64, 64, 128, 128, 128, 64, 32});
    // Hysteresis of three is not refilled by a halving.
    expect_dynamic(8, 3, 3, false, 1, "xxx.xxxxx", (double[]){256, 256, 128, 128, 64, 32, 16, 8, 4});
    // Growth refills hysteresis.
    expect_dynamic(8, 2, 2, false, 1, "x.....xxx", (double[]){256, 256, 256, 512, 512, 1024, 1024, 512, 256});
    // Each clean step refills consecutive hysteresis.
    expect_dynamic(8, 100, 2, true, 1, "x.x.x.xx.xx", (double[]){256, 256, 256, 256, 256, 256, 256, 128, 128, 128, 64});
    // Without that rule it does not.
    expect_dynamic(8, 100, 2, false, 1, "x.x.x.xx.xx", (double[]){256, 256, 128, 128, 64, 64, 32, 16, 16, 8, 4});
    // It stops at its minimum even between powers of two.
    expect_dynamic(4, 100, 1, false, 3, "xxx", (double[]){8, 4, 3});
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
