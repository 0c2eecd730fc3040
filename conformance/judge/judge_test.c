// SPDX-License-Identifier: Apache-2.0
// The judge on answers that are right by some rule, and on answers with one thing wrong.
#include "conformance/judge/judge_test.h"

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

static void times_world(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    (void)values, (void)step;
    for (int i = 0; i < c->param_count; i++)
        for (size_t j = 0; j < c->params[i].count; j++)
            g[i][j] *= (float)c->world;
}

Test(judge, a_sum_instead_of_a_mean_fails_as_a_factor)
{
    struct check_case c = trial_case(4, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.gradient = times_world});
    assert_fails(finding, HINT_FACTOR_WORLD);
    cr_assert_eq(finding.difference.step, 1);
    cr_assert_eq(finding.difference.param, 0);
    cr_assert_str_eq(finding.difference.what, "exp_avg");
}

static void rank0_alone(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    for (int i = 0; i < c->param_count; i++)
        memcpy(g[i], case_gradient(values, step, 0, 0, i), c->params[i].count * sizeof(float));
}

Test(judge, one_rank_alone_is_recognised)
{
    struct check_case c = trial_case(3, 1, DTYPE_FP32, false);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.gradient = rank0_alone});
    assert_fails(finding, HINT_ONE_RANK);
}

static void stale_gradient(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    struct rule rule = rule_canonical(c);
    struct unsharded_choice choice = {0};
    if (step > 1)
        cr_assert_eq(unsharded_gradient(c, values, &rule, &choice, step - 1, 1.0, g), ERR_NONE);
}

Test(judge, the_gradient_of_the_step_before_is_recognised)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.gradient = stale_gradient});
    assert_fails(finding, HINT_STALE_GRADIENT);
    cr_assert_eq(finding.difference.step, 2);
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

static void old_lr(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)c, (void)step, (void)rule;
    update->lr_step = 1;
}

Test(judge, the_learning_rate_of_another_step_is_recognised)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.update = old_lr});
    assert_fails(finding, HINT_LR);
    cr_assert_eq(finding.difference.step, 2);
}

static void skips_a_tensor(const struct check_case *c, int step, const struct unsharded_state *before,
                           struct unsharded_state *after)
{
    (void)step;
    size_t bytes = c->params[2].count * sizeof(float);
    memcpy(after->param[2], before->param[2], bytes);
    memcpy(after->exp_avg[2], before->exp_avg[2], bytes);
    memcpy(after->exp_avg_sq[2], before->exp_avg_sq[2], bytes);
}

Test(judge, a_tensor_that_keeps_its_state_is_not_updated)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.state = skips_a_tensor});
    assert_fails(finding, HINT_NOT_UPDATED);
    cr_assert_eq(finding.difference.param, 2);
    cr_assert_eq(finding.difference.compared_count, 159);
    cr_assert_lt(finding.difference.differing_count, 41);
}

static void copies_the_start(const struct check_case *c, int step, const struct unsharded_state *before,
                             struct unsharded_state *after)
{
    (void)step;
    unsharded_state_copy(c, before, after);
}

Test(judge, initial_parameters_copied_to_every_step_fail)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.state = copies_the_start});
    assert_fails(finding, HINT_NOT_UPDATED);
}

static void one_bit(const struct check_case *c, int step, const struct unsharded_state *before,
                    struct unsharded_state *after)
{
    (void)c, (void)before;
    if (step == 2)
        after->exp_avg_sq[1][16] = nextafterf(after->exp_avg_sq[1][16], INFINITY);
}

Test(judge, one_bit_of_one_element_is_no_recipe_but_within_the_limits)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.state = one_bit});
    cr_assert_eq(finding.verdict, VERDICT_BOUNDED, "%s", finding.text);
    cr_assert_eq(finding.difference.step, 2);
    cr_assert_eq(finding.difference.param, 1);
    cr_assert_eq(finding.difference.element, 16);
    cr_assert_str_eq(finding.difference.what, "exp_avg_sq");
    cr_assert_eq(finding.difference.actual_bits, finding.difference.expected_bits + 1);
}

static void short_moments(const struct check_case *c, int step, const struct unsharded_state *before,
                          struct unsharded_state *after)
{
    (void)step, (void)before;
    for (int i = 0; i < c->param_count; i++)
        for (size_t j = 0; j < c->params[i].count; j++) {
            after->exp_avg[i][j] = unsharded_round(DTYPE_BF16, after->exp_avg[i][j]);
            after->exp_avg_sq[i][j] = unsharded_round(DTYPE_BF16, after->exp_avg_sq[i][j]);
        }
}

Test(judge, moments_of_16_bits_are_recognised)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.state = short_moments});
    assert_fails(finding, HINT_MOMENTS);
}

static void swapped_moments(const struct check_case *c, int step, const struct unsharded_state *before,
                            struct unsharded_state *after)
{
    (void)before;
    for (int i = 0; i < c->param_count && step == 2; i++)
        for (size_t j = 0; j < c->params[i].count; j++) {
            float m = after->exp_avg[i][j];
            after->exp_avg[i][j] = after->exp_avg_sq[i][j];
            after->exp_avg_sq[i][j] = m;
        }
}

Test(judge, moments_in_each_others_place_are_recognised)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.state = swapped_moments});
    assert_fails(finding, HINT_MOMENTS);
    cr_assert_eq(finding.difference.step, 2);
}

// The halves of two tensors change places.
static void pieces_in_another_order(const struct check_case *c, const struct case_values *values, int step,
                                    float *const g[])
{
    (void)c, (void)values, (void)step;
    for (int k = 0; k < 20; k++) {
        float kept = g[0][k];
        g[0][k] = g[2][k + 20];
        g[2][k + 20] = kept;
    }
}

Test(judge, pieces_in_another_order_are_values_of_other_elements)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.gradient = pieces_in_another_order});
    assert_fails(finding, HINT_SHIFTED);
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

// The second tensor takes no space, so that those after it move up and the end is what nothing has written.
static void move_up(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    (void)values, (void)step;
    size_t gap = c->params[1].count;
    for (int i = 1; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++) {
            int from = i;
            size_t element = k + gap;
            while (from < c->param_count && element >= c->params[from].count)
                element -= c->params[from++].count;
            g[i][k] = from < c->param_count ? g[from][element] : NAN;
        }
}

Test(judge, what_moves_up_leaves_an_end_that_is_no_number)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    struct finding finding = state_finding(&c, NULL, &(struct wrong){.gradient = move_up});
    assert_fails(finding, HINT_SHIFTED);
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
    struct findings findings = trial_judge(&c, NULL, &(struct wrong){.says = t_stands_still});
    const struct finding *finding = trial_finding(&findings, ASPECT_DECISION);
    cr_assert_not_null(finding);
    assert_fails(*finding, HINT_STEP_COUNT);
    findings_free(&findings);
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
static struct finding rule_of(const struct check_case *asked, const struct check_case *first,
                              const struct check_case *second, const struct wrong *wrong)
{
    static const struct judge_options options = {.clip = -1, .unused = -1};
    struct findings findings = {0};
    struct judge *judge;
    struct rule rule = rule_canonical(first);
    rule.recipe = recipe_called("torch-fused-cpu");
    cr_assert(judge_open(&options, &findings, &judge) == ERR_NONE, "%s", err_message());
    trial_add(judge, first, &rule, NULL);
    trial_add(judge, second, &rule, wrong);
    cr_assert(judge_end(judge) == ERR_NONE, "%s", err_message());
    judge_close(judge);
    struct finding copy = {0};
    for (size_t i = 0; i < findings.count; i++)
        if (findings.list[i].aspect == ASPECT_RULE && findings.list[i].c == asked)
            copy = findings.list[i];
    findings_free(&findings);
    return copy;
}

Test(judge, cases_that_are_laid_out_alike_have_their_tails_in_the_same_elements)
{
    struct check_case first = trial_case(2, 1, DTYPE_FP32, true), second = first;
    strcpy(second.name, "clip-off.test");
    second.data.seed++;
    struct finding finding = rule_of(&second, &first, &second, NULL);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    finding = rule_of(&second, &first, &second, &(struct wrong){.tail_shift = 1});
    assert_fails(finding, HINT_TAIL);
    second.sub_group = 100;
    finding = rule_of(&second, &first, &second, &(struct wrong){.tail_shift = 1});
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
}

Test(judge, an_answer_that_fails_does_not_hide_the_recipe_of_the_others)
{
    struct check_case first = trial_case(2, 1, DTYPE_FP32, true), second = first;
    strcpy(second.name, "clip-off.test");
    struct finding finding = rule_of(&first, &first, &second, &(struct wrong){.gradient = times_world});
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    finding = rule_of(&second, &first, &second, &(struct wrong){.gradient = times_world});
    cr_assert_null(finding.c);
}
