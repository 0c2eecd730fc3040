// SPDX-License-Identifier: Apache-2.0
// The judge on updates of matrices: right ones pass in any order of products, and wrong ones say what they are.
#include "conformance/judge/judge_test.h"

enum { ROWS = 8, COLUMNS = 12, COUNT = ROWS * COLUMNS };

// How an answer's update is made.
static struct {
    double rate, decay, noise;
    size_t parts;
    bool plain, of_momentum, of_gradient, sums;
    int steps;
} made;

static struct check_case muon_case(void)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    snprintf(c.name, sizeof c.name, "muon-exact.test");
    c.params[0] = (struct case_param){
        .name = "matrix", .shape = {ROWS, COLUMNS}, .shape_rank = 2, .count = COUNT, .used = true, .tied_to = -1};
    c.params[2].group = 1;
    c.groups[0].muon = c.groups[0].nesterov = true;
    c.groups[0].ns_steps = 5;
    c.groups[0].beta1 = 0.95;
    c.groups[0].weight_decay = 0.1;
    for (int step = 0; step < c.steps; step++)
        c.groups[0].lr[step] = 0.02;
    c.data.exponent_low = c.data.exponent_high = -8;
    made.rate = made.decay = made.parts = 1;
    made.noise = made.plain = made.of_momentum = made.of_gradient = made.sums = false;
    made.steps = 5;
    return c;
}

static void move(const struct check_case *c, int step, const struct unsharded_state *before,
                 struct unsharded_state *after)
{
    double direction[COUNT], update[COUNT], beta = c->groups[0].beta1, lr = c->groups[0].lr[step - 1];
    for (size_t i = 0; i < COUNT; i++) {
        double m = (double)after->exp_avg[0][i] * (made.sums ? 1 - beta : 1), g = (double)trial_gradients[0][i];
        direction[i] = made.of_gradient ? g : made.of_momentum ? m : (1 - beta) * g + beta * m;
    }
    size_t part = COUNT / made.parts;
    for (size_t i = 0; i < made.parts; i++)
        cr_assert_eq(
            muon_orthogonalise(direction + i * part, ROWS / made.parts, COLUMNS, made.steps, update + i * part),
            ERR_NONE);
    for (size_t i = 0; i < COUNT; i++) {
        double moved = made.plain ? direction[i] * 300 : update[i] * (1 + (i % 2 ? made.noise : -made.noise));
        after->param[0][i] =
            (float)((double)before->param[0][i] * (1 - lr * 0.1 * made.decay) - lr * made.rate * moved);
    }
}

static struct finding judged(const struct check_case *c)
{
    struct rule rule = rule_canonical(c);
    rule.momentum = made.sums ? MOMENTUM_SUM : MOMENTUM_INTERPOLATED;
    return aspect_finding(ASPECT_UPDATE, c, &rule, &(struct wrong){.state = move});
}

static void expect_wrong(const struct check_case *c, enum hint hint, const char *what)
{
    struct finding finding = judged(c);
    cr_assert(finding.verdict == VERDICT_FAIL && finding.hint == hint, "%s: %s, %s", what, hint_name(finding.hint),
              finding.text);
    cr_expect_not_null(strstr(finding.text, what), "%s", finding.text);
    cr_expect_str_eq(finding.difference.what, "update");
    cr_expect_eq(finding.difference.param, 0);
}

Test(judge_muon, a_right_update_passes_with_roundings_of_bf16)
{
    struct check_case c = muon_case();
    struct finding finding = judged(&c);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    cr_expect_not_null(strstr(finding.text, "at most 0.0 % off"), "%s", finding.text);
    made.noise = 0.06;
    finding = judged(&c);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    made.noise = 0;
    made.sums = true;
    finding = judged(&c);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
}

Test(judge_muon, a_wrong_update_says_what_it_is)
{
    struct check_case c = muon_case();
    made.plain = true;
    expect_wrong(&c, HINT_ORTHOGONAL, "the momentum or the gradient itself");
    for (size_t parts = 2; parts <= 4; parts += 2) {
        c = muon_case();
        made.parts = parts;
        expect_wrong(&c, HINT_ORTHOGONAL, parts == 2 ? "orthogonal in 2 slices" : "orthogonal in 4 slices");
    }
    c = muon_case();
    made.rate = 1.25;
    expect_wrong(&c, HINT_LR, "it is 1.25 times the right one");
    c = muon_case();
    made.rate = 0;
    made.decay = 0;
    expect_wrong(&c, HINT_NOT_UPDATED, "not updated");
    c = muon_case();
    made.of_momentum = true;
    expect_wrong(&c, HINT_MOMENTS, "without Nesterov's step");
    made.of_momentum = false;
    made.of_gradient = true;
    expect_wrong(&c, HINT_MOMENTS, "without the momentum");
    c = muon_case();
    made.decay = 10;
    expect_wrong(&c, HINT_DECAY, "times the parameter");
    c = muon_case();
    made.noise = 0.3;
    expect_wrong(&c, HINT_ORTHOGONAL, "no matrix that is known");
}

Test(judge_muon, the_momentum_is_judged_by_bits_and_the_parameter_is_not)
{
    struct check_case c = muon_case();
    made.noise = 0.01;
    struct rule rule = rule_canonical(&c);
    struct wrong wrong = {.state = move};
    cr_expect_eq(state_finding(&c, &rule, &wrong).verdict, VERDICT_PASS);
    rule.momentum = MOMENTUM_WEIGHED;
    struct finding finding = state_finding(&c, &rule, &wrong);
    cr_expect_eq(finding.verdict, VERDICT_EQUIVALENT, "%s", finding.text);
    cr_expect_not_null(strstr(finding.text, "momentum weighed"), "%s", finding.text);
}
