// SPDX-License-Identifier: Apache-2.0
// Decisions against the reference's loss scaler, and against tables written by hand.
#include "conformance/unsharded/oracle_test.h"
#include "ref/arithmetic/random.h"
#include "ref/optimizer/scaler.h"

#include <math.h>

enum { STEPS = 24 };

// A case whose steps overflow where the text has an 'x'.
static struct check_case overflow_case(const char *text, uint64_t window, uint64_t hysteresis, double min_scale)
{
    struct check_case c = trial_case(2, 1);
    c.params[0] = c.params[2];
    c.param_count = 1;
    c.steps = (int)strlen(text);
    c.overflow_check = true;
    c.loss_scale = (struct case_loss_scale){SCALE_DYNAMIC, 1024, window, hysteresis, min_scale};
    for (int step = 1; step <= c.steps; step++)
        if (text[step - 1] == 'x') {
            cr_assert_lt(c.data.poke_count, CASE_POKE_MAX);
            c.data.pokes[c.data.poke_count++] = (struct case_poke){.step = step, .rank = step % 2, .value = INFINITY};
        }
    return c;
}

static void decide(const struct check_case *c, enum scaler_form form, struct unsharded_decision out[])
{
    struct case_values *values;
    cr_assert_eq(case_values_open(c, &values), 0);
    cr_assert_eq(unsharded_decide(c, values, form, out), 0);
    case_values_close(values);
}

Test(decide, deepspeeds_scale_is_the_references_after_every_step)
{
    for (uint64_t trial = 0; trial < 120; trial++) {
        char text[STEPS + 1] = {0};
        int count = 0;
        for (int i = 0; i < STEPS; i++) {
            bool overflow = random_below(random_at(trial, (uint64_t)i), 4) == 0 && count < CASE_POKE_MAX;
            count += overflow;
            text[i] = overflow ? 'x' : '.';
        }
        struct check_case c = overflow_case(text, 1 + trial % 4, 1 + trial / 4 % 3, 0.25);
        struct config_loss_scale rules = {.dynamic = true,
                                          .initial_scale_power = 10,
                                          .window = c.loss_scale.window,
                                          .hysteresis = c.loss_scale.hysteresis,
                                          .min_scale = 0.25};
        struct scaler scaler;
        struct unsharded_decision decisions[STEPS];
        scaler_open(&scaler, &rules);
        decide(&c, SCALER_DEEPSPEED, decisions);
        uint64_t t = 0;
        for (int i = 0; i < STEPS; i++) {
            cr_assert_eq(decisions[i].skipped, text[i] == 'x');
            cr_assert_eq(decisions[i].scale, scaler_scale(&scaler), "%s, step %d", text, i + 1);
            cr_assert_eq(scaler_update(&scaler, text[i] == 'x'), 0);
            cr_assert_eq(decisions[i].scale_after, scaler_scale(&scaler), "%s, step %d", text, i + 1);
            t += text[i] != 'x';
            cr_assert_eq(decisions[i].t, t);
            cr_assert_eq(decisions[i].applies, text[i] == 'x' ? 0 : i + 1);
        }
    }
}

// The power of two of the scale after each step, beginning at 10.
static void expect_powers(const char *text, uint64_t window, uint64_t hysteresis, enum scaler_form form,
                          const int powers[])
{
    struct check_case c = overflow_case(text, window, hysteresis, 64);
    struct unsharded_decision decisions[STEPS];
    decide(&c, form, decisions);
    for (int i = 0; i < c.steps; i++)
        cr_expect_eq(decisions[i].scale_after, ldexp(1, powers[i]), "%s, form %d, step %d: %g", text, (int)form, i + 1,
                     decisions[i].scale_after);
}

Test(decide, each_form_of_the_dynamic_scale_grows_and_shrinks_by_its_own_rule)
{
    //                                                             .   .   .   .   x  x  .  .   .   x
    expect_powers("....xx...x", 2, 2, SCALER_TORCH, (int[]){10, 11, 11, 12, 11, 10, 10, 11, 11, 10});
    expect_powers("....xx...x", 2, 2, SCALER_MEGATRON, (int[]){10, 11, 11, 12, 12, 11, 11, 12, 12, 12});
    expect_powers("....xx...x", 2, 2, SCALER_DEEPSPEED, (int[]){10, 10, 11, 11, 11, 10, 10, 10, 11, 11});
    // Megatron's hysteresis stays used up until the scale doubles; no form goes below the least scale.
    expect_powers("xx.x.xx", 2, 2, SCALER_MEGATRON, (int[]){10, 9, 9, 8, 8, 7, 6});
    expect_powers("xxxxxx", 2, 1, SCALER_TORCH, (int[]){9, 8, 7, 6, 6, 6});
    expect_powers("xxxxxx", 2, 1, SCALER_MEGATRON, (int[]){9, 8, 7, 6, 6, 6});
    expect_powers("xxxxxx", 2, 1, SCALER_DEEPSPEED, (int[]){9, 8, 7, 6, 6, 6});
}

Test(decide, the_scaled_gradient_overflows_in_the_models_format)
{
    struct check_case c = overflow_case(".....", 100, 1, 1);
    c.precision = c.communication_dtype = DTYPE_FP16;
    c.loss_scale.scale = 1024;
    c.data.exponent_low = c.data.exponent_high = 6;  // 64 .. 128
    struct unsharded_decision decisions[5];
    decide(&c, SCALER_DEEPSPEED, decisions);
    // 64 x 1024 is beyond fp16; with 512 the sum of both ranks is, if both have one sign; with 256 nothing is.
    cr_expect(decisions[0].skipped);
    cr_expect(!decisions[4].skipped);
    c.loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 128};
    decide(&c, SCALER_DEEPSPEED, decisions);
    for (int i = 0; i < 5; i++)
        cr_expect(!decisions[i].skipped && decisions[i].scale == 128 && decisions[i].scale_after == 128);
    c.data.pokes[c.data.poke_count++] = (struct case_poke){.step = 2, .rank = 1, .value = NAN};
    decide(&c, SCALER_DEEPSPEED, decisions);
    cr_expect(decisions[1].skipped && !decisions[0].skipped && decisions[4].t == 4);
    c.overflow_check = false;
    decide(&c, SCALER_DEEPSPEED, decisions);
    cr_expect(!decisions[1].skipped && decisions[1].applies == 2 && decisions[4].t == 5);
}

Test(decide, a_late_update_applies_the_step_before_and_drops_overflows)
{
    struct check_case c = overflow_case("..x...x.", 100, 1, 1);
    struct unsharded_decision decisions[8];
    c.delayed_update = 2;
    decide(&c, SCALER_DEEPSPEED, decisions);
    static const int applies[] = {1, 0, 2, 0, 4, 5, 6, 0};
    static const uint64_t t[] = {1, 1, 2, 2, 3, 4, 5, 5};
    for (int i = 0; i < 8; i++) {
        cr_expect_eq(decisions[i].applies, applies[i], "step %d", i + 1);
        cr_expect_eq(decisions[i].t, t[i], "step %d", i + 1);
    }
}

static void expect_alike(const struct unsharded_decision a[], const struct unsharded_decision b[], int count)
{
    for (int i = 0; i < count; i++)
        cr_expect(a[i].skipped == b[i].skipped && a[i].scale == b[i].scale && a[i].scale_after == b[i].scale_after &&
                      a[i].t == b[i].t && a[i].applies == b[i].applies,
                  "step %d", i + 1);
}

Test(decide, a_resumed_case_goes_on_and_one_with_weights_only_begins_anew)
{
    struct check_case c = overflow_case(".x.x...", 2, 1, 1);
    struct unsharded_decision whole[7], resumed[7], save[7];
    decide(&c, SCALER_DEEPSPEED, whole);
    c.phase = PHASE_RESUME;
    c.checkpoint_step = 3;
    decide(&c, SCALER_DEEPSPEED, resumed);
    expect_alike(whole, resumed, 7);
    c.weights_only = true;
    decide(&c, SCALER_DEEPSPEED, resumed);
    cr_expect_eq(resumed[2].t, 2);
    cr_expect_eq(resumed[2].scale_after, 512);
    cr_expect(resumed[3].scale == 1024 && resumed[3].scale_after == 512 && resumed[3].t == 0);
    cr_expect_eq(resumed[6].t, 3);
    c.phase = PHASE_SAVE;
    decide(&c, SCALER_DEEPSPEED, save);
    expect_alike(whole, save, 3);
}
