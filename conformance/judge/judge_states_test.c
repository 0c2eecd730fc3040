// SPDX-License-Identifier: Apache-2.0
// Answers whose moments and masters are kept in 16 bits, judged by every claim: one case tells them all apart.
#include "conformance/judge/judge_test.h"

#include "conformance/unsharded/recipe_row.h"

#include <math.h>

static int recipe_named(const char *name)
{
    for (int i = 0; adam_recipe_at(i); i++)
        if (strcmp(adam_recipe_name(adam_recipe_at(i)), name) == 0)
            return i;
    cr_assert_fail("no recipe %s", name);
    return -1;
}

// Gradients whose squares are numbers of fp16.
static struct check_case case_in(enum dtype precision, bool exact)
{
    struct check_case c = trial_case(2, 1, precision, exact);
    c.data.exponent_low = 0;
    c.data.exponent_high = 5;
    return c;
}

// The finding on the states of an answer by a rule, under claims.
static struct finding judged(const struct check_case *c, const struct rule *rule, struct claimed_states claimed,
                             const struct wrong *wrong)
{
    static const struct wrong nothing;
    struct judge_options options = any;
    options.states = claimed;
    struct findings findings = trial_judge_all(c, 1, &options, rule, wrong ? wrong : &nothing);
    const struct finding *state = trial_finding(&findings, ASPECT_STATE);
    cr_assert_not_null(state);
    struct finding copy = *state;
    findings_free(&findings);
    return copy;
}

static struct rule kept_in(const struct check_case *c, enum dtype moments, enum dtype master)
{
    struct rule rule = rule_canonical(c);
    rule.states = (struct rule_states){.moments = moments, .master = master};
    return rule;
}

// All claims that concern a case in 16 bits.
static const struct claimed_states claims[] = {
    {CLAIMED_FP32, CLAIMED_FP32},      {CLAIMED_BF16, CLAIMED_FP32},      {CLAIMED_FP16, CLAIMED_FP32},
    {CLAIMED_FP32, CLAIMED_PRECISION}, {CLAIMED_BF16, CLAIMED_PRECISION}, {CLAIMED_FP16, CLAIMED_PRECISION},
};
enum { CLAIM_COUNT = sizeof claims / sizeof *claims };

Test(judge_states, each_claim_explains_its_own_answer_and_no_other)
{
    static const enum dtype precisions[] = {DTYPE_BF16, DTYPE_FP16};
    int passed = 0, failed = 0;
    for (int p = 0; p < 2; p++) {
        struct check_case c = case_in(precisions[p], true);
        for (int mine = 0; mine < CLAIM_COUNT; mine++)
            for (int claimed = 0; claimed < CLAIM_COUNT; claimed++) {
                struct rule_states states = rule_states_of(&c, &claims[mine]);
                struct rule rule = kept_in(&c, states.moments, states.master);
                struct finding finding = judged(&c, &rule, claims[claimed], NULL);
                bool same_moments = claims[mine].moments == claims[claimed].moments;
                if (mine == claimed)
                    cr_expect_eq(finding.verdict, VERDICT_PASS, "%d: %s", mine, finding.text);
                else
                    assert_fails(finding, same_moments ? HINT_MASTER : HINT_MOMENTS);
                if (mine != claimed)
                    cr_expect(strstr(finding.text, "but every bit follows torch-cpu"), "%s", finding.text);
                passed += finding.verdict == VERDICT_PASS;
                failed += finding.verdict == VERDICT_FAIL;
            }
    }
    cr_expect(passed == 2 * CLAIM_COUNT && failed == 2 * CLAIM_COUNT * (CLAIM_COUNT - 1), "%d, %d", passed, failed);
}

// The claim that states follow the model is one for cases of every precision.
Test(judge_states, states_of_the_model_are_fp32_in_an_fp32_case)
{
    const struct claimed_states model = {CLAIMED_PRECISION, CLAIMED_PRECISION};
    for (enum dtype precision = DTYPE_FP32; precision <= DTYPE_FP16; precision++) {
        struct check_case c = trial_case(3, 2, precision, false);
        struct rule rule = kept_in(&c, precision, precision), other = kept_in(&c, DTYPE_FP32, DTYPE_FP32);
        cr_expect_eq(judged(&c, &rule, model, NULL).verdict, VERDICT_PASS);
        cr_expect_eq(judged(&c, &other, model, NULL).verdict == VERDICT_PASS, precision == DTYPE_FP32);
    }
}

Test(judge_states, each_recipe_and_each_rounding_of_the_gradient_has_its_name)
{
    static const char *const names[] = {"torch-cpu", "torch-cpu-16bit"};
    const struct claimed_states model = {CLAIMED_PRECISION, CLAIMED_PRECISION};
    for (enum dtype precision = DTYPE_BF16; precision <= DTYPE_FP16; precision++)
        for (int i = 0; i < 2; i++)
            for (int rounds = 0; rounds < 2; rounds++) {
                struct check_case c = case_in(precision, false);
                c.gradient_clipping = 1;
                struct rule rule = kept_in(&c, precision, precision);
                rule.recipe = recipe_named(names[i]);
                rule.states.rounds_gradient = rounds;
                struct finding finding = judged(&c, &rule, model, NULL);
                size_t length = strlen(names[i]);
                cr_expect_eq(finding.verdict, i == 0 && !rounds ? VERDICT_PASS : VERDICT_EQUIVALENT);
                cr_expect(strncmp(finding.text, names[i], length) == 0 && finding.text[length] == ',', "%s",
                          finding.text);
                cr_expect_eq(strstr(finding.text, "mean gradient") != NULL, rounds, "%s", finding.text);
            }
}

static float truncated(float x)
{
    return unsharded_round(DTYPE_BF16, x) == x ? x : f32_of_bits(f32_bits(x) & 0xffff0000u);
}

static struct held truncates_moments(const struct place *at, struct held before, struct held after)
{
    (void)at, (void)before;
    after.param = unsharded_round(DTYPE_BF16, after.param);
    after.exp_avg = truncated(after.exp_avg);
    after.exp_avg_sq = truncated(after.exp_avg_sq);
    return after;
}

// The parameter follows from what is kept of the moments, where the recipe has them in fp32.
static struct held moves_by_kept_moments(const struct place *at, struct held before, struct held after)
{
    const struct case_group *group = &at->c->groups[at->c->params[at->param].group];
    struct recipe_step step = {.lr = group->lr[at->step - 1],
                               .beta1 = group->beta1,
                               .beta2 = group->beta2,
                               .eps = group->eps,
                               .weight_decay = group->weight_decay,
                               .decoupled = group->decoupled,
                               .bias_correction = true,
                               .t = (uint64_t)at->step};
    struct recipe_scalars s;
    torch_begin(&step, &s);
    after.exp_avg = unsharded_round(DTYPE_BF16, after.exp_avg);
    after.exp_avg_sq = unsharded_round(DTYPE_BF16, after.exp_avg_sq);
    after.param = s.decoupled ? before.param * s.shrink : before.param;
    after.param += s.step_size * after.exp_avg / (sqrtf(after.exp_avg_sq) / s.bias2 + s.eps);
    return after;
}

// The decayed parameter is rounded before the update is added.
static struct held rounds_the_master_twice(const struct place *at, struct held before, struct held after)
{
    const struct case_group *group = &at->c->groups[at->c->params[at->param].group];
    float kept = before.param * (float)(1 - group->lr[at->step - 1] * group->weight_decay);
    after.param = unsharded_round(DTYPE_BF16, unsharded_round(DTYPE_BF16, kept) + (after.param - kept));
    after.exp_avg = unsharded_round(DTYPE_BF16, after.exp_avg);
    after.exp_avg_sq = unsharded_round(DTYPE_BF16, after.exp_avg_sq);
    return after;
}

// No limit of roundings excuses what no rule explains.
Test(judge_states, a_wrong_rounding_fails_and_is_named)
{
    const struct {
        struct held (*held)(const struct place *at, struct held before, struct held after);
        enum claimed_dtype master;
    } mistakes[] = {{truncates_moments, CLAIMED_PRECISION},
                    {moves_by_kept_moments, CLAIMED_FP32},
                    {rounds_the_master_twice, CLAIMED_PRECISION}};
    for (int exact = 0; exact < 2; exact++)
        for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
            struct check_case c = trial_case(2, 1, DTYPE_BF16, exact);
            struct finding finding = judged(&c, NULL, (struct claimed_states){CLAIMED_BF16, mistakes[i].master},
                                            &(struct wrong){.held = mistakes[i].held});
            cr_expect(finding.verdict == VERDICT_FAIL && finding.hint == HINT_ROUNDING, "%zu: %s: %s", i,
                      hint_name(finding.hint), finding.text);
        }
}
