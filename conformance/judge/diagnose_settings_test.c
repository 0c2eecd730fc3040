// SPDX-License-Identifier: Apache-2.0
// The hint and the words for an update that was made with other hyper-parameters than the case's.
#include "conformance/judge/judge_test.h"

#include <math.h>

// How the answer's settings differ from the case's.
static void (*mistake)(struct check_case *c);

static void updates_with_them(const struct check_case *c, int step, const struct unsharded_state *before,
                              struct unsharded_state *after)
{
    struct check_case other = *c;
    struct rule rule = rule_canonical(c);
    struct unsharded_update update = {.t = (uint64_t)step, .lr_step = step, .coefficient = 1, .leaves_unused = true};
    const float *const *g = (const float *const *)trial_gradients;
    mistake(&other);
    cr_assert(unsharded_adam(&other, &rule, &update, g, before, after) == ERR_NONE, "%s", err_message());
}

// Two groups that differ in everything.
static void differ(struct check_case *c)
{
    c->groups[1].beta1 = 0.8;
    c->groups[1].beta2 = 0.99;
    c->groups[0].eps = 1e-4;
    c->groups[1].eps = 1e-3;
}

static void corrects_none(struct check_case *c)
{
    c->groups[0].bias_correction = false;
}

static void has_betas_of_the_first(struct check_case *c)
{
    c->groups[1].beta1 = c->groups[0].beta1;
    c->groups[1].beta2 = c->groups[0].beta2;
}

static void has_another_beta2(struct check_case *c)
{
    c->groups[0].beta2 = c->groups[1].beta2 = 0.95;
}

static void has_the_default_eps(struct check_case *c)
{
    c->groups[0].eps = c->groups[1].eps = 1e-8;
}

static void has_eps_of_the_last(struct check_case *c)
{
    c->groups[0].eps = c->groups[1].eps;
}

static void has_ten_times_the_rate(struct check_case *c)
{
    for (int step = 0; step < c->steps; step++)
        c->groups[0].lr[step] *= 12;
}

static void has_the_rate_of_the_first(struct check_case *c)
{
    memcpy(c->groups[1].lr, c->groups[0].lr, sizeof c->groups[1].lr);
}

static void decays_as_the_first(struct check_case *c)
{
    c->groups[1].weight_decay = c->groups[0].weight_decay;
}

static void decays_twice(struct check_case *c)
{
    c->groups[0].weight_decay *= 2;
}

static void has_the_other_kind(struct check_case *c)
{
    c->groups[0].decoupled = !c->groups[0].decoupled;
}

static void has_the_other_correction(struct check_case *c)
{
    for (int i = 0; i < 2; i++)
        c->groups[i].bias_correction = true;
    c->groups[1].bias_correction = false;
}

static void has_all_of_the_first(struct check_case *c)
{
    c->groups[1] = c->groups[0];
}

static const struct {
    void (*change)(struct check_case *c), (*mistake)(struct check_case *c);
    enum hint hint;
    const char *says;
} mistakes[] = {
    {differ, has_betas_of_the_first, HINT_BETAS,
     "group 1 has beta1 0.9 (group 0's) in place of 0.8; group 1 has beta2 0.999 (group 0's) in place of 0.99; near"},
    {differ, has_another_beta2, HINT_BETAS,
     "group 0 has beta2 0.95 in place of 0.999; group 1 has beta2 0.95 in place of 0.99; near"},
    {differ, has_the_default_eps, HINT_EPS,
     "group 0 has eps 1e-08 in place of 0.0001; group 1 has eps 1e-08 in place of 0.001; near"},
    {differ, has_eps_of_the_last, HINT_EPS, "group 0 has eps 0.001 (group 1's) in place of 0.0001; near"},
    {differ, has_ten_times_the_rate, HINT_LR, "group 0 has lr 0.012 in place of 0.001; near"},
    {differ, has_the_rate_of_the_first, HINT_LR, "group 1 has lr 0.001 (group 0's) in place of 0.002; near"},
    {differ, decays_as_the_first, HINT_DECAY, "group 1 has weight_decay 0.1 (group 0's) in place of 0; near"},
    {differ, decays_twice, HINT_DECAY, "group 0 has weight_decay 0.2 in place of 0.1; near"},
    {differ, has_the_other_kind, HINT_DECAY, "group 0 decays as by Adam in place of AdamW; near"},
    {differ, has_the_other_correction, HINT_CORRECTION, "group 1 lacks the bias correction; near"},
    {corrects_none, has_the_other_correction, HINT_CORRECTION, "group 0 has bias correction, and must not; near"},
    {differ, has_all_of_the_first, HINT_GROUP, "near"},
};

Test(diagnose_settings, the_setting_and_the_group_are_named)
{
    const struct wrong wrong = {.state = updates_with_them};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
        mistakes[i].change(&c);
        mistake = mistakes[i].mistake;
        struct finding finding = state_finding(&c, NULL, &wrong);
        cr_expect(finding.verdict == VERDICT_FAIL && finding.hint == mistakes[i].hint, "%zu: %s, %s: %s", i,
                  verdict_name(finding.verdict), hint_name(finding.hint), finding.text);
        cr_expect_eq(strncmp(finding.text, mistakes[i].says, strlen(mistakes[i].says)), 0, "%zu: %s", i, finding.text);
    }
}

// The decay is of the parameter that the step has just made.
static void decays_after_the_update(const struct check_case *c, int step, const struct unsharded_state *before,
                                    struct unsharded_state *after)
{
    struct check_case other = *c;
    struct rule rule = rule_canonical(c);
    struct unsharded_update update = {.t = (uint64_t)step, .lr_step = step, .coefficient = 1, .leaves_unused = true};
    other.groups[0].weight_decay = 0;
    const float *const *g = (const float *const *)trial_gradients;
    cr_assert(unsharded_adam(&other, &rule, &update, g, before, after) == ERR_NONE, "%s", err_message());
    for (int i = 0; i < c->param_count; i += 2)
        for (size_t k = 0; k < c->params[i].count; k++)
            after->param[i][k] *= (float)(1 - c->groups[0].lr[step - 1] * c->groups[0].weight_decay);
}

static void learns_fast(struct check_case *c)
{
    for (int step = 0; step < c->steps; step++)
        c->groups[0].lr[step] = 0.01;
}

Test(diagnose_settings, the_order_of_decay_and_update_is_named)
{
    const struct wrong wrong = {.state = decays_after_the_update};
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    learns_fast(&c);
    struct finding finding = state_finding(&c, NULL, &wrong);
    cr_expect_eq(finding.hint, HINT_DECAY_ORDER, "%s: %s", hint_name(finding.hint), finding.text);
}

// The decay is of the parameters as the model has them.
static void decays_the_copy(const struct check_case *c, int step, const struct unsharded_state *before,
                            struct unsharded_state *after)
{
    double rate = c->groups[0].lr[step - 1] * c->groups[0].weight_decay;
    for (int i = 0; i < c->param_count; i += 2)
        for (size_t k = 0; k < c->params[i].count; k++) {
            float p = before->param[i][k];
            after->param[i][k] += (float)(rate * ((double)p - (double)unsharded_round(c->precision, p)));
        }
}

Test(diagnose_settings, decay_of_the_rounded_parameters_is_named)
{
    const struct wrong wrong = {.state = decays_the_copy};
    struct check_case c = trial_case(2, 1, DTYPE_BF16, false);
    learns_fast(&c);
    c.groups[0].weight_decay = 1;
    struct finding finding = state_finding(&c, NULL, &wrong);
    assert_fails(finding, HINT_MASTER);
    cr_expect(strstr(finding.text, "the decay is of the rounded parameters; near"), "%s", finding.text);
}

static void is_some_roundings_off(const struct check_case *c, int step, const struct unsharded_state *before,
                                  struct unsharded_state *after)
{
    (void)step, (void)before;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            after->param[i][k] *= k % 3 == 1 ? 1 - 0x1p-22f : 1 + 0x1p-22f;
}

// By chance in the direction in which decay of the copy would have it.
static void is_off_in_one(const struct check_case *c, int step, const struct unsharded_state *before,
                          struct unsharded_state *after)
{
    float p = before->param[0][0], *one = &after->param[0][0];
    if (step > 1)  // it begins with what 16 bits hold
        *one += fabsf(*one) * (p > unsharded_round(c->precision, p) ? 0x1p-22f : -0x1p-22f);
}

Test(diagnose_settings, a_small_difference_is_no_decay_of_rounded_parameters)
{
    const struct wrong wrongs[] = {{.state = is_some_roundings_off}, {.state = is_off_in_one}};
    for (int i = 0; i < 4; i++) {
        struct check_case c = trial_case(2, 1, DTYPE_BF16, false);
        c.groups[0].weight_decay = i % 2 ? 0.01 : 0;
        struct finding finding = state_finding(&c, NULL, &wrongs[i / 2]);
        cr_expect_neq(finding.hint, HINT_MASTER, "%s", finding.text);
    }
}
