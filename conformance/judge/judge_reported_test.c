// SPDX-License-Identifier: Apache-2.0
// The judge on the gradient that an answer reports.
#include "conformance/judge/judge_test.h"

static float *gradient_of_step[CASE_PARAM_MAX];

static void doubled_from_step_2(const struct check_case *c, const struct case_values *values, int step,
                                float *const g[])
{
    (void)values;
    memcpy(gradient_of_step, g, sizeof gradient_of_step);
    for (size_t i = 0; step >= 2 && i < c->params[0].count; i++)
        g[0][i] *= 2;
}

static void tells_its_gradient(const struct check_case *c, int step, struct answer_step *says)
{
    (void)c, (void)step;
    says->has_grad = true;
    memcpy(says->grad, gradient_of_step, sizeof says->grad);
}

Test(judge_reported, a_wrong_gradient_that_the_answer_tells_is_wrong_in_a_later_step_too)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding =
        state_finding(&c, NULL, &(struct wrong){.says = tells_its_gradient, .gradient = doubled_from_step_2});
    cr_assert_eq(finding.verdict, VERDICT_FAIL, "%s", finding.text);
    cr_assert_eq(finding.difference.step, 2);
}

static void keeps_its_gradient(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    (void)c, (void)values, (void)step;
    memcpy(gradient_of_step, g, sizeof gradient_of_step);
}

// The state is made already: only the report is wrong.
static void tells_the_sum(const struct check_case *c, int step, struct answer_step *says)
{
    for (int i = 0; step == 2 && i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            gradient_of_step[i][k] *= (float)c->world;
    tells_its_gradient(c, step, says);
}

static void tells_zeros_for_a_tensor(const struct check_case *c, int step, struct answer_step *says)
{
    if (step == 3)
        memset(gradient_of_step[2], 0, c->params[2].count * sizeof(float));
    tells_its_gradient(c, step, says);
}

static struct finding reported_finding(void (*says)(const struct check_case *c, int step, struct answer_step *says))
{
    struct check_case c = trial_case(4, 1, DTYPE_FP32, false);
    strcpy(c.name, "red-rounding.test");
    struct findings findings = trial_judge(&c, NULL, &(struct wrong){.gradient = keeps_its_gradient, .says = says});
    const struct finding *state = trial_finding(&findings, ASPECT_STATE);
    const struct finding *reported = trial_finding(&findings, ASPECT_GRADIENT);
    cr_assert(state && reported);
    cr_assert_eq(state->verdict, VERDICT_PASS, "%s", state->text);
    struct finding copy = *reported;
    findings_free(&findings);
    return copy;
}

Test(judge_reported, a_gradient_that_is_reported_wrong_has_the_hint_of_a_gradient)
{
    struct finding finding = reported_finding(tells_its_gradient);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    finding = reported_finding(tells_the_sum);
    assert_fails(finding, HINT_FACTOR_WORLD);
    cr_assert_eq(finding.difference.step, 2);
    cr_assert_eq(finding.difference.bits, 32);
    cr_assert_str_eq(finding.difference.what, "grad");
    finding = reported_finding(tells_zeros_for_a_tensor);
    assert_fails(finding, HINT_BUCKET);
    cr_assert_eq(finding.difference.step, 3);
    cr_assert_eq(finding.difference.param, 2);
    cr_assert_eq(finding.difference.element, 0);
    cr_assert_eq(finding.difference.compared_count, 159);
    cr_assert_eq(finding.difference.actual_bits, 0);
}
