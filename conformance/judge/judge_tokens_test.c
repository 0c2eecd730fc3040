// SPDX-License-Identifier: Apache-2.0
// The judge on means over tokens: the forms that are right, and what each wrong one is called.
#include "conformance/cases/case_tokens.h"
#include "conformance/judge/judge_test.h"

#include <math.h>

enum { WORLD = 2, MICRO_STEPS = 4, SLOTS = WORLD * MICRO_STEPS };

// Counts of a step in the order of micro-steps and ranks, turned by two each step. T differs from step to step.
static struct check_case tokens_case(const uint32_t counts[SLOTS], bool exact)
{
    struct check_case c = trial_case(WORLD, MICRO_STEPS, DTYPE_FP32, exact);
    snprintf(c.name, sizeof c.name, "tok-exact.test");
    c.has_tokens = true;
    for (int step = 1; step <= c.steps; step++)
        for (int slot = 0; slot < SLOTS; slot++)
            case_set_tokens(&c, step, slot / WORLD, slot % WORLD, counts[(slot + 2 * step) % SLOTS] << (step % 2));
    return c;
}

static const uint32_t powers[SLOTS] = {8, 4, 16, 32, 1, 1, 2, 64}, odd[SLOTS] = {7, 13, 1, 40, 5, 3, 29, 25};

static float all(const struct place *at)
{
    return (float)case_all_tokens(at->c, at->step);
}

static float own(const struct place *at, int micro, int rank)
{
    return (float)case_tokens(at->c, at->step, micro, rank);
}

// The sum over ranks of each one's sum over micro-steps, with a weight for each gradient.
static float weighted(const struct place *at, float (*weigh)(const struct place *at, int micro, int rank, float g))
{
    float sum = 0;
    for (int rank = 0; rank < WORLD; rank++) {
        float of_rank = 0;
        for (int micro = 0; micro < MICRO_STEPS; micro++)
            of_rank += weigh(at, micro, rank, given(at, micro, rank));
        sum += of_rank;
    }
    return sum;
}

// --- right ---

static float plain(const struct place *at, int micro, int rank, float g)
{
    (void)at, (void)micro, (void)rank;
    return g;
}

static float divides_last(const struct place *at, float g)
{
    (void)g;
    return weighted(at, plain) / all(at);
}

static float multiplies_last(const struct place *at, float g)
{
    (void)g;
    return weighted(at, plain) * (1 / all(at));
}

static float over_all(const struct place *at, int micro, int rank, float g)
{
    (void)micro, (void)rank;
    return g * (1 / all(at));
}

static float divides_the_loss(const struct place *at, float g)
{
    (void)g;
    return weighted(at, over_all);
}

static float times_world(const struct place *at, int micro, int rank, float g)
{
    (void)micro, (void)rank;
    return g * (WORLD / all(at)) / WORLD;
}

static float averages_ranks(const struct place *at, float g)
{
    (void)g;
    return weighted(at, times_world);
}

static float times_both(const struct place *at, int micro, int rank, float g)
{
    (void)micro, (void)rank;
    return g * (WORLD * MICRO_STEPS / all(at)) / MICRO_STEPS;
}

static float averages_both(const struct place *at, float g)
{
    (void)g;
    return weighted(at, times_both) / WORLD;
}

static float share(const struct place *at, int micro, int rank, float g)
{
    return g * (1 / own(at, micro, rank)) * (own(at, micro, rank) / all(at));
}

static float weighs_means(const struct place *at, float g)
{
    (void)g;
    return weighted(at, share);
}

Test(judge_tokens, all_places_of_the_division_are_right)
{
    float (*const forms[])(const struct place *, float) = {divides_last,   multiplies_last, divides_the_loss,
                                                           averages_ranks, averages_both,   weighs_means};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (int even = 0; even < 2; even++) {
            struct check_case c = tokens_case(even ? powers : odd, even);
            struct finding finding = state_finding(&c, NULL, &(struct wrong){.element = forms[i]});
            bool right = finding.verdict == VERDICT_PASS || (finding.verdict == VERDICT_EQUIVALENT && !even);
            cr_expect(right, "form %zu: %s, %s", i, verdict_name(finding.verdict), finding.text);
        }
}

// --- wrong ---

static float by_own(const struct place *at, int micro, int rank, float g)
{
    return g / own(at, micro, rank) / SLOTS;
}

static float averages_means(const struct place *at, float g)
{
    (void)g;
    return weighted(at, by_own);
}

static float by_rank(const struct place *at, int micro, int rank, float g)
{
    float sum = 0;
    for (micro = 0; micro < MICRO_STEPS; micro++)
        sum += own(at, micro, rank);
    return g / sum / WORLD;
}

static float divides_by_own_rank(const struct place *at, float g)
{
    (void)g;
    return weighted(at, by_rank);
}

static float by_micro_step(const struct place *at, int micro, int rank, float g)
{
    (void)rank;
    return g / (own(at, micro, 0) + own(at, micro, 1)) / MICRO_STEPS;
}

static float divides_by_own_micro_step(const struct place *at, float g)
{
    (void)g;
    return weighted(at, by_micro_step);
}

static float divides_by_last_micro_step(const struct place *at, float g)
{
    return g * all(at) / (own(at, MICRO_STEPS - 1, 0) + own(at, MICRO_STEPS - 1, 1));
}

static float divides_by_padding(const struct place *at, float g)
{
    float most = 0;
    for (int slot = 0; slot < SLOTS; slot++)
        most = fmaxf(most, own(at, slot / WORLD, slot % WORLD));
    return g * all(at) / (SLOTS * most);
}

static float divides_again(const struct place *at, float g)
{
    (void)at;
    return g / MICRO_STEPS;
}

static float divides_by_the_step_before(const struct place *at, float g)
{
    return at->step == 1 ? g : g * all(at) / (float)case_all_tokens(at->c, at->step - 1);
}

Test(judge_tokens, each_wrong_form_has_its_hint)
{
    static const struct {
        float (*element)(const struct place *at, float g);
        enum hint hint;
    } forms[] = {
        {averages_means, HINT_TOKENS_MEANS},
        {divides_by_own_rank, HINT_TOKENS_OWN_RANK},
        {divides_by_own_micro_step, HINT_TOKENS_MICRO_STEP},
        {divides_by_last_micro_step, HINT_TOKENS_MICRO_STEP},
        {divides_by_padding, HINT_TOKENS_PADDING},
        {divides_again, HINT_FACTOR_ACCUMULATION},
        {divides_by_the_step_before, HINT_TOKENS_BEFORE},
    };
    static const uint32_t counts[SLOTS] = {11, 1, 3, 17, 9, 2, 8, 13};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct check_case c = tokens_case(counts, true);
        assert_fails(state_finding(&c, NULL, &(struct wrong){.element = forms[i].element}), forms[i].hint);
    }
}

static float counts_a_few_less(const struct place *at, float g)
{
    return (float)((double)g * (double)all(at) / (double)(case_all_tokens(at->c, at->step) - 64));
}

Test(judge_tokens, a_count_that_is_rounded_is_wrong)
{
    static const uint32_t counts[SLOTS] = {(1 << 24) + 1, 1, 2, (1 << 24) - 4, 1, 1, (1 << 24) - 1, (1 << 24) - 1};
    struct check_case c = tokens_case(counts, true);
    cr_assert_eq(case_all_tokens(&c, 2), 1 << 26);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.element = counts_a_few_less}), HINT_TOKENS_ROUNDED);
    struct finding right = state_finding(&c, NULL, &(struct wrong){0});
    cr_expect_eq(right.verdict, VERDICT_PASS, "%s", right.text);
}

// --- steps without tokens, which end the case's second step ---

static struct check_case empty_case(void)
{
    struct check_case c = tokens_case(powers, true);
    for (int slot = 0; slot < SLOTS; slot++)
        case_set_tokens(&c, 2, slot / WORLD, slot % WORLD, 0);
    return c;
}

static void counts_without(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule)
{
    (void)c, (void)rule;
    update->t -= step > 2;
}

static void leaves_out(const struct check_case *c, int step, const struct unsharded_state *before,
                       struct unsharded_state *after)
{
    if (step == 2)
        unsharded_state_copy(c, before, after);
}

static void says_without(const struct check_case *c, int step, struct answer_step *says)
{
    (void)c;
    says->t -= step >= 2;
}

Test(judge_tokens, a_step_without_tokens_is_applied_or_left_out_in_all_cases)
{
    const struct check_case cases[2] = {empty_case(), empty_case()};
    const struct wrong applies = {0}, skips = {.update = counts_without, .state = leaves_out, .says = says_without};
    const struct wrong pairs[][2] = {{applies, applies}, {skips, skips}, {applies, skips}, {skips, applies}};
    for (int i = 0; i < 4; i++) {
        struct findings findings = trial_judge_all(cases, 2, &any, NULL, pairs[i]);
        int wrong = 0;
        for (size_t k = 0; k < findings.count; k++)
            wrong += findings.list[k].aspect == ASPECT_STATE && findings.list[k].verdict != VERDICT_PASS;
        cr_expect_eq(wrong, i >= 2, "pair %d", i);
        findings_free(&findings);
    }
}

// --- the report ---

static double loss_said;
static uint64_t tokens_said;

static void reports(const struct check_case *c, int step, struct answer_step *says)
{
    says->has_tokens = tokens_said > 0;
    says->tokens = case_all_tokens(c, step) * tokens_said;
    says->has_loss = loss_said != 0;
    says->loss = loss_said;
}

Test(judge_tokens, what_is_reported_is_judged)
{
    struct check_case c = tokens_case(powers, true);
    const struct wrong wrong = {.says = reports};
    loss_said = 0, tokens_said = 0;
    cr_expect_eq(aspect_finding(ASPECT_LOSS, &c, NULL, &wrong).verdict, VERDICT_UNSUPPORTED);
    tokens_said = 1;
    cr_expect_eq(aspect_finding(ASPECT_LOSS, &c, NULL, &wrong).verdict, VERDICT_PASS);
    tokens_said = 2;
    assert_fails(aspect_finding(ASPECT_LOSS, &c, NULL, &wrong), HINT_REPORTED);
    tokens_said = 0, loss_said = 1000;
    assert_fails(aspect_finding(ASPECT_LOSS, &c, NULL, &wrong), HINT_REPORTED);
}
