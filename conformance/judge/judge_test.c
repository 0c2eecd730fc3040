// SPDX-License-Identifier: Apache-2.0
// The judge on answers that are right by some rule, and on answers with one thing wrong.
#include "conformance/judge/judge_test.h"
#include "conformance/unsharded/rule_test.h"

#include <math.h>

Test(judge, the_canonical_rule_passes)
{
    for (int world = 1; world <= 3; world++)
        for (int accumulation = 1; accumulation <= 2; accumulation++)
            for (int exact = 0; exact < 2; exact++) {
                struct check_case c = trial_case(world, accumulation, DTYPE_FP32, exact);
                struct finding finding = state_finding(&c, NULL, NULL);
                cr_assert_eq(finding.verdict, VERDICT_PASS, "%d ranks: %s", world, finding.text);
            }
}

Test(judge, every_rule_of_the_table_is_found)
{
    struct check_case c = trial_case(3, 1, DTYPE_FP32, false);
    int count = rule_count(&c), passed = 0;
    for (int i = 0; i < count; i += 7) {
        struct rule rule = rule_at(&c, i);
        struct finding finding = state_finding(&c, &rule, NULL);
        char text[256];
        cr_assert(finding.verdict <= VERDICT_EQUIVALENT && finding.verdict >= VERDICT_PASS, "%s: %s",
                  rule_text(&rule, text, sizeof text), finding.text);
        passed += finding.verdict == VERDICT_PASS;
    }
    cr_assert_lt(passed, 8, "%d of every seventh rule pass as canonical", passed);
}

// Moments of less than fp32 are what R-OPT-10 forbids, and no other requirement.
Test(judge, a_recipe_of_8_bits_explains_states_and_convicts_moments)
{
    static const char *const names[] = {"adam-small.test", "adam-wide.test", "adam-basic.test"};
    int convicted = 0, tried = 0;
    for (int i = 0; adam_recipe_at(i); i++) {
        bool is_short = !adam_recipe_keeps_fp32(adam_recipe_at(i));
        for (int k = 0; k < 3 && (is_short || i == 0) && adam_recipe_does(adam_recipe_at(i), true); k++) {
            struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
            snprintf(c.name, sizeof c.name, "%s", names[k]);
            struct rule rule = rule_canonical(&c);
            rule.recipe = i;
            struct findings findings = trial_judge(&c, &rule, NULL);
            const struct finding *state = trial_finding(&findings, ASPECT_STATE);
            const struct finding *moments = trial_finding(&findings, ASPECT_MOMENTS);
            cr_assert_eq(state->verdict, is_short ? VERDICT_EQUIVALENT : VERDICT_PASS, "%s", state->text);
            cr_assert_eq(moments != NULL, is_short && k < 2, "%s", state->text);
            if (moments) {
                assert_fails(*moments, HINT_MOMENTS);
                cr_assert_not_null(strstr(moments->text, "8bit-cpu"), "%s", moments->text);
            }
            tried++;
            convicted += moments != NULL;
            findings_free(&findings);
        }
    }
    cr_assert(convicted >= 4 && tried == 3 + convicted / 2 * 3, "%d of %d", convicted, tried);
}

static float times_world(const struct place *at, float g)
{
    return g * (float)at->c->world;
}

Test(judge, a_sum_instead_of_a_mean_fails_as_a_factor)
{
    struct check_case c = trial_case(4, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.element = times_world});
    assert_fails(finding, HINT_FACTOR_WORLD);
    cr_assert_eq(finding.difference.step, 1);
    cr_assert_eq(finding.difference.param, 0);
    cr_assert_str_eq(finding.difference.what, "exp_avg");
}

static void t_off_by_one(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)c, (void)step, (void)rule;
    update->t++;
}

Test(judge, another_t_is_recognised)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.update = t_off_by_one});
    assert_fails(finding, HINT_STEP_COUNT);
    cr_assert_str_eq(finding.difference.what, "param");
}

static struct held skips_a_tensor(const struct place *at, struct held before, struct held after)
{
    return at->param == 2 ? before : after;
}

Test(judge, a_tensor_that_keeps_its_state_is_not_updated)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.held = skips_a_tensor});
    assert_fails(finding, HINT_NOT_UPDATED);
    cr_assert_eq(finding.difference.param, 2);
    cr_assert_eq(finding.difference.compared_count, 159);
    cr_assert_lt(finding.difference.differing_count, 41);
}

static struct held one_bit(const struct place *at, struct held before, struct held after)
{
    (void)before;
    if (at->step == 2 && at->param == 1 && at->k == 16)
        after.exp_avg_sq = nextafterf(after.exp_avg_sq, INFINITY);
    return after;
}

Test(judge, one_bit_of_one_element_is_no_recipe_but_within_the_limits)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.held = one_bit});
    cr_assert_eq(finding.verdict, VERDICT_BOUNDED, "%s", finding.text);
    cr_assert_eq(finding.difference.step, 2);
    cr_assert_eq(finding.difference.param, 1);
    cr_assert_eq(finding.difference.element, 16);
    cr_assert_str_eq(finding.difference.what, "exp_avg_sq");
    cr_assert_eq(finding.difference.actual_bits, finding.difference.expected_bits + 1);
}

// Among eight ranks with few different numbers some have the gradient of almost any element.
Test(judge, what_single_ranks_explain_by_chance_is_no_gradient_of_one_rank)
{
    struct check_case c = trial_case(8, 1, DTYPE_FP32, true);
    c.data.unit = 1;
    c.data.reach = 2;
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.gradient = pieces_in_another_order});
    cr_assert_eq(finding.verdict, VERDICT_FAIL);
    cr_assert_neq(finding.hint, HINT_ONE_RANK);
}

static void t_stands_still(const struct check_case *c, int step, struct answer_step *says)
{
    (void)c;
    if (step == 3)
        says->t = 2;
}

Test(judge, a_wrong_t_is_a_wrong_decision)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = aspect_finding(ASPECT_DECISION, &c, NULL, &(struct wrong){.says = t_stands_still});
    assert_fails(finding, HINT_STEP_COUNT);
}

static void other_recipe(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)c, (void)update;
    for (rule->recipe = 0; step > 1 && strcmp(adam_recipe_name(adam_recipe_at(rule->recipe)), "deepspeed-cpu-clang");)
        rule->recipe++;
}

Test(judge, a_recipe_that_changes_midway_is_no_rule)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.update = other_recipe});
    cr_assert_eq(finding.verdict, VERDICT_BOUNDED, "%s", finding.text);
}

// The norm that the answer reports, if tells_norm.
static double reported_norm;
static bool tells_norm;

static double norm_behind(const struct check_case *c, float coefficient)
{
    return c->gradient_clipping / (double)coefficient - 1e-6;
}

static void other_norm(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)step;
    reported_norm = norm_behind(c, update->coefficient) * (1 - 0x1p-22);
    update->coefficient = unsharded_coefficient(c, rule, reported_norm);
}

static void tell_norm(const struct check_case *c, int step, struct answer_step *says)
{
    (void)c, (void)step;
    says->has_norm = tells_norm;
    says->norm = reported_norm;
}

Test(judge, a_norm_of_other_roundings_clips_by_another_coefficient)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    c.gradient_clipping = 1e-3;
    struct wrong wrong = {.update = other_norm, .says = tell_norm};
    struct finding finding = state_finding(&c, NULL, NULL);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    finding = state_finding(&c, NULL, &wrong);
    cr_assert_eq(finding.verdict, VERDICT_BOUNDED, "%s", finding.text);
    tells_norm = true;
    finding = state_finding(&c, NULL, &wrong);
    cr_assert_eq(finding.verdict, VERDICT_EQUIVALENT, "%s", finding.text);
    cr_assert(strstr(finding.text, "norm of other roundings"), "%s", finding.text);
}

static void half_the_norm(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)step;
    reported_norm = norm_behind(c, update->coefficient) / 2;
    update->coefficient = unsharded_coefficient(c, rule, reported_norm);
}

Test(judge, a_wrong_norm_is_wrong_although_the_answer_tells_it)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    c.gradient_clipping = 1e-3;
    tells_norm = true;
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.update = half_the_norm, .says = tell_norm});
    cr_assert_eq(finding.verdict, VERDICT_FAIL, "%s", finding.text);
}

static int recipe_called(const char *name)
{
    int index = 0;
    while (adam_recipe_at(index) && strcmp(adam_recipe_name(adam_recipe_at(index)), name) != 0)
        index++;
    cr_assert(adam_recipe_at(index), "no recipe is called %s", name);
    return index;
}

// The canonical recipe equals this one's body.
static void no_tail_in_step_3(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)c, (void)update;
    if (step == 3)
        rule->recipe = 0;
}

Test(judge, an_element_is_not_in_the_body_in_one_step_and_in_the_tail_in_another)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct rule rule = rule_canonical(&c);
    rule.recipe = recipe_called("torch-fused-cpu");
    struct finding finding = state_finding(&c, &rule, NULL);
    cr_assert_eq(finding.verdict, VERDICT_EQUIVALENT, "%s", finding.text);
    finding = state_finding(&c, &rule, &(struct wrong){.update = no_tail_in_step_3});
    cr_assert_eq(finding.verdict, VERDICT_BOUNDED, "%s", finding.text);
    cr_assert_eq(finding.difference.step, 3);
}

static void pow_in_every_step(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)c, (void)rule;
    update->resumed_t = (uint64_t)step - 1;
}

Test(judge, powers_of_beta_may_be_made_anew_only_where_groups_have_different_betas)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    c.steps = 12;
    for (int step = 0; step < c.steps; step++)
        c.groups[0].lr[step] = c.groups[1].lr[step] = 1e-3;
    struct rule rule = rule_canonical(&c);
    rule.recipe = recipe_called("deepspeed-cpu-gcc");
    struct finding finding = state_finding(&c, &rule, &(struct wrong){.update = pow_in_every_step});
    cr_assert_eq(finding.verdict, VERDICT_BOUNDED, "%s", finding.text);
    c.groups[1].beta1 = 0.8;
    finding = state_finding(&c, &rule, &(struct wrong){.update = pow_in_every_step});
    cr_assert_eq(finding.verdict, VERDICT_EQUIVALENT, "%s", finding.text);
    cr_assert(strstr(finding.text, "recomputed in every step"), "%s", finding.text);
}

// Two answers by torch's fused recipe, the second with something wrong: what is said of the rule of one of them.
static struct finding rule_of(int asked, const struct check_case cases[2], const struct wrong *second)
{
    struct rule rule = rule_canonical(cases);
    const struct wrong wrong[2] = {{0}, *second};
    struct finding copy = {0};
    rule.recipe = recipe_called("torch-fused-cpu");
    struct findings findings = trial_judge_all(cases, 2, &any, &rule, wrong);
    for (size_t i = 0; i < findings.count; i++)
        if (findings.list[i].aspect == ASPECT_RULE && findings.list[i].c == &cases[asked])
            copy = findings.list[i];
    findings_free(&findings);
    return copy;
}

Test(judge, cases_that_are_laid_out_alike_have_their_tails_in_the_same_elements)
{
    struct check_case cases[2] = {trial_case(2, 1, DTYPE_FP32, true), trial_case(2, 1, DTYPE_FP32, true)};
    const struct wrong nothing = {0}, shifted = {.tail_shift = 1};
    strcpy(cases[1].name, "clip-off.test");
    cases[1].data.seed++;
    struct finding finding = rule_of(1, cases, &nothing);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    finding = rule_of(1, cases, &shifted);
    assert_fails(finding, HINT_TAIL);
    cases[1].sub_group = 100;
    finding = rule_of(1, cases, &shifted);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
}

Test(judge, an_answer_that_fails_does_not_hide_the_recipe_of_the_others)
{
    struct check_case cases[2] = {trial_case(2, 1, DTYPE_FP32, true), trial_case(2, 1, DTYPE_FP32, true)};
    const struct wrong wrong = {.element = times_world};
    strcpy(cases[1].name, "clip-off.test");
    struct finding finding = rule_of(0, cases, &wrong);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    cr_assert_null(rule_of(1, cases, &wrong).c);
}
