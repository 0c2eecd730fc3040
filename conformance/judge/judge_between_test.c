// SPDX-License-Identifier: Apache-2.0
// Answers compared with each other: which are compared, which one is blamed, and what honest programs may differ in.
#include "conformance/judge/judge_internal.h"
#include "conformance/judge/judge_test.h"
#include "conformance/unsharded/rule_test.h"

#include <math.h>

static struct check_case twin_case(const char *name, int stage, int world)
{
    struct check_case c = trial_case(world, 1, DTYPE_FP32, true);
    snprintf(c.name, sizeof c.name, "%s", name);
    snprintf(c.twin, sizeof c.twin, "twin");
    c.stage = stage;
    c.data.same_mean = true;
    c.data.spread = 2;
    return c;
}

static struct rule tail_rule(const struct check_case *c)
{
    struct rule rule = rule_canonical(c);
    for (rule.recipe = 0; !adam_recipe_has_tail(adam_recipe_at(rule.recipe));)
        rule.recipe++;
    return rule;
}

static size_t count_of(const struct findings *findings, enum aspect aspect, enum verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += findings->list[i].aspect == aspect && findings->list[i].verdict == verdict;
    return count;
}

// A remainder that follows the shard is permitted within a stage and a world, and is named where it is not.
Test(judge_between, a_permitted_tail_is_no_difference_of_buckets_but_one_of_stages_and_worlds)
{
    struct check_case cases[] = {
        twin_case("red-buckets.w2.s1.fp32.a", 1, 2), twin_case("red-buckets.w2.s2.fp32.b", 2, 2),
        twin_case("adam-basic.w2.s1.fp32", 1, 2),    twin_case("adam-basic.w2.s2.fp32", 2, 2),
        twin_case("det-world.w2.s1.fp32", 1, 2),     twin_case("det-world.w3.s1.fp32", 1, 3)};
    const enum aspect aspects[] = {ASPECT_SAME, ASPECT_STAGES, ASPECT_WORLDS};
    for (int pair = 0; pair < 3; pair++) {
        struct rule rule = tail_rule(&cases[2 * pair]);
        const struct wrong shifted[2] = {{0}, {.tail_shift = 1}};
        struct findings findings = trial_judge_all(&cases[2 * pair], 2, &any, &rule, shifted);
        cr_assert_eq(count_of(&findings, ASPECT_STATE, VERDICT_EQUIVALENT), 2);
        const struct finding *finding = trial_finding(&findings, aspects[pair]);
        if (pair == 0) {
            cr_assert_null(finding, "stages are not compared where the requirement is about buckets");
        } else {
            cr_assert_not_null(finding);
            assert_fails(*finding, HINT_TAIL);
            cr_assert_eq(finding->twin, &cases[2 * pair]);
            cr_assert_not_null(strstr(finding->text, "a permitted recipe"), "%s", finding->text);
        }
        findings_free(&findings);
    }
}

static float forget_rank(const struct place *at, float g)
{
    (void)g;
    return given(at, 0, 0) / (float)at->c->world;
}

// Three twins, the first of which is wrong by itself: it alone is blamed, with its own hint.
Test(judge_between, the_twin_that_its_own_state_convicts_is_blamed)
{
    struct check_case cases[] = {twin_case("red-buckets.w2.s1.fp32.a", 1, 2),
                                 twin_case("red-buckets.w2.s1.fp32.b", 1, 2),
                                 twin_case("red-buckets.w2.s1.fp32.c", 1, 2)};
    const struct wrong wrong[3] = {{.element = forget_rank}};
    struct findings findings = trial_judge_all(cases, 3, &any, NULL, wrong);
    cr_assert_eq(count_of(&findings, ASPECT_SAME, VERDICT_FAIL), 1);
    cr_assert_eq(count_of(&findings, ASPECT_SAME, VERDICT_PASS), 1);
    for (size_t i = 0; i < findings.count; i++)
        if (findings.list[i].aspect == ASPECT_SAME && findings.list[i].verdict == VERDICT_FAIL) {
            cr_assert_eq(findings.list[i].c, &cases[0]);
            cr_assert_eq(findings.list[i].hint, HINT_ONE_RANK);
        }
    findings_free(&findings);
}

// The last place of a sum that was made in another format.
static float sum_otherwise(const struct place *at, float g)
{
    return at->k % 2 ? g : nextafterf(g, INFINITY);
}

// Many exact answers that a recipe explains do not make an honest sum of other roundings wrong.
Test(judge_between, sums_outside_the_table_but_within_their_limits_break_no_rule)
{
    enum { EXACT = 30, ROUNDING = 3 };
    static struct check_case cases[EXACT + ROUNDING];
    static struct wrong wrong[EXACT + ROUNDING];
    for (int i = 0; i < EXACT + ROUNDING; i++) {
        cases[i] = trial_case(3, 1, DTYPE_FP32, i < EXACT);
        snprintf(cases[i].name, sizeof cases[i].name, "adam-basic.%d", i);
        cases[i].data.unit = 3;
        wrong[i].element = i < EXACT ? NULL : sum_otherwise;
    }
    struct findings findings = trial_judge_all(cases, EXACT + ROUNDING, &any, NULL, wrong);
    cr_assert_eq(count_of(&findings, ASPECT_STATE, VERDICT_BOUNDED), ROUNDING);
    cr_assert_eq(count_of(&findings, ASPECT_RULE, VERDICT_BOUNDED), ROUNDING);
    cr_assert_eq(count_of(&findings, ASPECT_RULE, VERDICT_PASS), EXACT);
    findings_free(&findings);
}

// a + (g - a) / k over micro-steps, as JAX's optax accumulates.
static float running_mean(const struct place *at, float g)
{
    float mean = 0;
    (void)g;
    for (int micro = 0; micro < at->c->accumulation; micro++) {
        float sum = 0;
        for (int rank = 0; rank < at->c->world; rank++)
            sum += given(at, micro, rank);
        mean += (sum / (float)at->c->world - mean) / (float)(micro + 1);
    }
    return mean;
}

Test(judge_between, a_running_mean_over_micro_steps_is_within_the_limits_of_an_exact_case)
{
    struct check_case c = trial_case(2, 5, DTYPE_FP32, true);
    const struct wrong mean = {.element = running_mean}, wrong = {.element = forget_rank};
    c.data.unit = 5;
    struct finding finding = state_finding(&c, NULL, &mean);
    cr_assert_eq(finding.verdict, VERDICT_BOUNDED, "%s: %s", verdict_name(finding.verdict), finding.text);
    finding = state_finding(&c, NULL, &wrong);
    cr_assert_eq(finding.verdict, VERDICT_FAIL);
}

Test(judge_between, a_false_claim_of_the_form_of_clipping_is_found)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    snprintf(c.name, sizeof c.name, "clip-above.test");
    c.gradient_clipping = 0.0137;
    c.steps = 12;  // the forms round alike in many of them
    for (int step = 3; step < c.steps; step++)
        c.groups[0].lr[step] = c.groups[1].lr[step] = 1e-3;
    for (int form = 0; form < 2; form++)
        for (int claimed = -1; claimed < 2; claimed++) {
            const struct judge_options options = {.clip = claimed, .unused = -1};
            const struct wrong nothing = {0};
            struct rule rule = rule_canonical(&c);
            for (int i = 0; rule_clip_is_deepspeed(rule.clip) != form; i++)
                rule = rule_at(&c, i);
            struct findings findings = trial_judge_all(&c, 1, &options, &rule, &nothing);
            const struct finding *finding = trial_finding(&findings, ASPECT_STATE);
            if (claimed >= 0 && claimed != form) {
                assert_fails(*finding, HINT_CLIP);
                cr_assert_not_null(strstr(finding->text, "clip_form is claimed to be"), "%s", finding->text);
            } else {
                cr_assert_leq(finding->verdict, VERDICT_EQUIVALENT, "%d %d: %s", form, claimed, finding->text);
            }
            findings_free(&findings);
        }
}

// A rank that sends (N-1)/N of a tensor may count that rounded down; it may not leave out more.
Test(judge_between, a_program_may_round_down_what_it_sends)
{
    struct check_case c = trial_case(4, 1, DTYPE_FP32, true);
    struct unsharded_decision decisions[CASE_STEP_MAX] = {{.applies = 1}, {.applies = 2}, {.applies = 3}};
    struct answer answer = {.has_usage = true};
    struct trial trial = {.c = &c, .answer = &answer, .decisions = decisions};
    for (int missing = 0; missing < 2; missing++) {
        uint64_t bytes = 0;
        for (int i = 0; i < c.param_count; i++)
            bytes += c.params[i].count * 3 / 4 * 4;
        for (int rank = 0; rank < c.world; rank++)
            for (int purpose = 0; purpose < 2; purpose++)
                answer.usage[rank].sent_bytes[purpose] = 3 * bytes - (missing ? 3 * 40 : 0);
        struct finding finding = {.c = &c};
        judge_usage(&trial, ASPECT_TRAFFIC, &finding);
        cr_assert_eq(finding.verdict, missing ? VERDICT_FAIL : VERDICT_PASS, "%s", finding.text);
    }
}

// 2,700 elements, gathered by two ranks three times, in as many bytes each.
static void says_gathered(int bytes, struct answer *answer)
{
    for (int rank = 0; rank < 2; rank++)
        answer->usage[rank].sent_bytes[USAGE_GATHER] = (uint64_t)bytes * 3 * 1350;
}

// 16 bits gathered once are as many bytes as 8 bits gathered twice: how often is known from the same case in fp32.
Test(judge_between, a_gather_of_16_bits_that_is_kept_for_backward_is_none_of_8)
{
    static const struct {
        int bytes, of_plain;
        enum verdict verdict;
    } rows[] = {{1, 4, VERDICT_PASS}, {2, 8, VERDICT_PASS}, {2, 4, VERDICT_FAIL}, {3, 8, VERDICT_PASS}};
    struct check_case c = twin_case("fp8-gather.test", 3, 2), plain = twin_case("fp8-plain.test", 3, 2);
    c.gathers_e4m3 = true;
    c.params[0].shape[0] = c.params[0].count = 2642;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct answer answers[2] = {{.has_usage = true}, {.has_usage = true}};
        struct findings findings = {0};
        struct kept kept[2] = {{.c = &c, .aspects = 1u << ASPECT_TRAFFIC}, {.c = &plain}};
        struct judge judge = {.findings = &findings, .kept = kept, .kept_count = 2};
        says_gathered(rows[i].bytes, &answers[0]);
        says_gathered(rows[i].of_plain, &answers[1]);
        for (int k = 0; k < 2; k++)
            kept[k].gathered = judge_gathered(&(struct trial){.c = kept[k].c, .answer = &answers[k]});
        cr_assert_eq(judge_twins(&judge), ERR_NONE);
        const struct finding *finding = trial_finding(&findings, ASPECT_TRAFFIC);
        cr_assert(finding && finding->c == &c && finding->verdict == rows[i].verdict, "%zu: %s", i,
                  finding ? finding->text : "no finding");
        findings_free(&findings);
    }
}

static void take_other_recipe(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)c, (void)step, (void)update;
    while (adam_recipe_has_tail(adam_recipe_at(++rule->recipe)))
        continue;
}

// Clipped answers alone follow another recipe: nothing rounds in them that does not in the others.
Test(judge_between, an_answer_by_another_recipe_than_the_others_is_found_wherever_it_is)
{
    enum { COUNT = 12 };
    static struct check_case cases[COUNT];
    static const struct wrong wrong[COUNT] = {{.update = take_other_recipe}};
    for (int i = 0; i < COUNT; i++) {
        cases[i] = trial_case(2, 1, DTYPE_FP32, true);
        snprintf(cases[i].name, sizeof cases[i].name, "clip-off.%d", i);
        cases[i].gradient_clipping = i == 0 ? 1e3 : 0;
    }
    struct findings findings = trial_judge_all(cases, COUNT, &any, NULL, wrong);
    cr_assert_eq(count_of(&findings, ASPECT_STATE, VERDICT_EQUIVALENT), 1);
    cr_assert_eq(count_of(&findings, ASPECT_RULE, VERDICT_FAIL), 1);
    assert_fails(*trial_finding(&findings, ASPECT_RULE), HINT_RECIPE);
    findings_free(&findings);
}
