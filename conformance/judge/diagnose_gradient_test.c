// SPDX-License-Identifier: Apache-2.0
// The hint for a gradient that was rounded to 16 bits on its way to the optimizer.
#include "conformance/judge/judge_test.h"

static float is_rounded_to_the_models_dtype(const struct place *at, float g)
{
    return unsharded_round(at->c->precision, g);
}

static void sums_in_fp32_and_clips(struct check_case *c)
{
    c->communication_dtype = DTYPE_FP32;
    c->data.lead = 8;
    c->data.reach = 7;
    c->gradient_clipping = 0x1p-8;
}

// Means of 2^-25, which fp16 does not hold: zero, as moments of fp16 would be.
static void has_a_mean_that_vanishes(struct check_case *c)
{
    c->communication_dtype = DTYPE_FP32;
    for (int rank = 0; rank < 2; rank++)
        c->data.pokes[c->data.poke_count++] = (struct case_poke){1, 0, rank, 0, 3, rank ? 0x1p-24f : 0};
}

Test(diagnose_gradient, a_rounding_to_16_bits_is_one_of_the_gradient)
{
    static const struct {
        void (*change)(struct check_case *c);
        int micro_steps;
        enum dtype precision;
    } rows[] = {
        {sums_in_fp32_and_clips, 2, DTYPE_BF16},
        {sums_in_fp32_and_clips, 2, DTYPE_FP16},
        {has_a_mean_that_vanishes, 1, DTYPE_FP16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct check_case c = trial_case(2, rows[i].micro_steps, rows[i].precision, false);
        rows[i].change(&c);
        struct wrong wrong = {.element = is_rounded_to_the_models_dtype};
        struct finding finding = state_finding(&c, NULL, &wrong);
        cr_expect(finding.verdict == VERDICT_FAIL && finding.hint == HINT_GRADIENT, "%zu: %s, %s: %s", i,
                  verdict_name(finding.verdict), hint_name(finding.hint), finding.text);
    }
}
