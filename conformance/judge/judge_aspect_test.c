// SPDX-License-Identifier: Apache-2.0
// The judge on what an answer tells besides its states: decisions, the parameters that forward used, the gradient.
#include "conformance/judge/judge_test.h"

#include <math.h>

static int skipped_step, applied_step;

// A step that is skipped leaves all states as they were.
static void skips(const struct check_case *c, int step, const struct unsharded_state *before,
                  struct unsharded_state *after)
{
    if (step == skipped_step)
        unsharded_state_copy(c, before, after);
}

static void says_what_it_skips(const struct check_case *c, int step, struct answer_step *says)
{
    (void)c;
    if (step == skipped_step || step == applied_step)
        says->skipped = step == skipped_step;
}

// The decision about a case of three steps that overflows in the first: what `skipped` differs in, and its hint.
static void assert_hint(int skips_in, int applies_in, int step, enum hint expected)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    c.overflow_check = true;
    c.data.poke_count = 1;
    c.data.pokes[0] = (struct case_poke){.step = 1, .value = INFINITY};
    skipped_step = skips_in;
    applied_step = applies_in;
    struct findings findings = trial_judge(&c, NULL, &(struct wrong){.state = skips, .says = says_what_it_skips});
    const struct finding *decision = trial_finding(&findings, ASPECT_DECISION);
    assert_fails(*decision, expected);
    cr_assert_str_eq(decision->difference.what, "skipped");
    cr_assert_eq(decision->difference.step, step);
    if (skips_in > 0)
        assert_fails(*trial_finding(&findings, ASPECT_STATE), expected);
    findings_free(&findings);
}

Test(judge_aspect, a_skip_after_a_skip_may_be_left_over_from_it)
{
    assert_hint(2, 0, 2, HINT_LEFT_OVER);
    assert_hint(3, 0, 3, HINT_OVERFLOW);
    assert_hint(0, 1, 1, HINT_OVERFLOW);
}

static void older_on_rank_1(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    if (step == 3 && rank == 1 && param == 3)
        memcpy(whole, older, c->params[param].count * sizeof *whole);
}

static void truncated(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    (void)step, (void)rank, (void)older;
    for (size_t i = 0; i < c->params[param].count; i++) {
        uint32_t bits = f32_bits(whole[i]) & 0xffff0000u;
        whole[i] = f32_of_bits(bits);
    }
}

// Each element of rank 1 sees the next one's value.
static void moved_by_one(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    (void)older;
    size_t count = c->params[param].count;
    if (step == 3 && rank == 1)
        memmove(whole, whole + 1, (count - 1) * sizeof *whole);
}

static void not_gathered(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    (void)older;
    if (step >= 2 && rank == 1)
        memset(whole, 0, c->params[param].count / 2 * sizeof *whole);
}

Test(judge_aspect, what_forward_used_is_the_rounded_master)
{
    static const struct {
        struct wrong wrong;
        enum hint hint;
        int step, rank, param;  // of the first difference, where one is expected
    } rows[] = {{{.seen = older_on_rank_1}, HINT_STALE_COPY, 3, 1, 3},
                {{.seen = truncated}, HINT_ROUNDING, 0, 0, 0},
                {{.seen = moved_by_one}, HINT_SHIFTED, 0, 0, 0},
                {{.seen = not_gathered}, HINT_FOREIGN_COPY, 2, 1, 0}};
    struct check_case c = trial_case(2, 2, DTYPE_BF16, true);
    strcpy(c.name, "gather-steps.test");
    struct finding finding = aspect_finding(ASPECT_SEEN, &c, NULL, NULL);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        finding = aspect_finding(ASPECT_SEEN, &c, NULL, &rows[i].wrong);
        assert_fails(finding, rows[i].hint);
        if (rows[i].step == 0)
            continue;
        cr_assert_eq(finding.difference.step, rows[i].step);
        cr_assert_eq(finding.difference.rank, rows[i].rank);
        cr_assert_eq(finding.difference.param, rows[i].param);
    }
}

static void scale_to(float amax, float *whole, size_t count)
{
    for (size_t i = 0; i < count; i++)
        whole[i] = unsharded_e4m3(whole[i], amax);
}

static void right_in_e4m3(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    (void)step, (void)rank, (void)older;
    scale_to(unsharded_amax(whole, c->params[param].count), whole, c->params[param].count);
}

static void older_in_e4m3(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    if (step == 3 && rank == 1)
        memcpy(whole, older, c->params[param].count * sizeof *whole);
    right_in_e4m3(c, step, rank, param, older, whole);
}

static void scale_of_before(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    (void)rank;
    scale_to(unsharded_amax(step > 1 ? older : whole, c->params[param].count), whole, c->params[param].count);
}

// Two shards, each with its own scale.
static void scale_of_shard(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    (void)step, (void)rank, (void)older;
    size_t count = c->params[param].count, first = (count + 1) / 2;
    scale_to(unsharded_amax(whole, first), whole, first);
    scale_to(unsharded_amax(whole + first, count - first), whole + first, count - first);
}

// Each rank unpacks what the other sends with its own scale.
static void scale_of_own(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    right_in_e4m3(c, step, rank, param, older, whole);
    for (size_t i = 0; i < c->params[param].count; i++)
        whole[i] *= rank == 0 && param != 3 ? 0.3f : 1;
}

static void of_nothing(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    (void)step, (void)rank, (void)older;
    for (size_t i = 0; i < c->params[param].count; i++)
        whole[i] = NAN;
}

static void in_bf16(const struct check_case *c, int step, int rank, int param, const float *older, float *whole)
{
    (void)step, (void)rank, (void)older;
    for (size_t i = 0; i < c->params[param].count; i++)
        whole[i] = unsharded_round(DTYPE_BF16, whole[i]);
}

Test(judge_aspect, a_gather_in_e4m3_has_the_scale_of_the_tensor)
{
    static const struct {
        struct wrong wrong;
        enum hint hint;
        const char *text;
    } rows[] = {{{.seen = older_in_e4m3}, HINT_STALE_COPY, "the scale of the whole tensor"},
                {{.seen = scale_of_before}, HINT_QUANTIZED, "the scale of the step before"},
                {{.seen = scale_of_shard}, HINT_QUANTIZED, "as that of one shard"},
                {{.seen = scale_of_own}, HINT_QUANTIZED, "as that of one shard"},
                {{.seen = of_nothing}, HINT_QUANTIZED, "as that of one shard"},
                {{.seen = in_bf16}, HINT_QUANTIZED, "they are not quantized"},
                {{.seen = NULL}, HINT_QUANTIZED, "they are not quantized"}};
    struct check_case c = trial_case(2, 2, DTYPE_FP32, true);
    struct wrong right = {.seen = right_in_e4m3};
    strcpy(c.name, "fp8-gather.test");
    c.stage = 3;
    c.gathers_e4m3 = true;
    struct finding finding = aspect_finding(ASPECT_SEEN, &c, NULL, &right);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        finding = aspect_finding(ASPECT_SEEN, &c, NULL, &rows[i].wrong);
        assert_fails(finding, rows[i].hint);
        cr_expect_not_null(strstr(finding.text, rows[i].text), "%zu: %s", i, finding.text);
    }
}

static float doubled_from_step_2(const struct place *at, float g)
{
    return at->step >= 2 && at->param == 0 ? 2 * g : g;
}

static void tells_its_gradient(const struct check_case *c, int step, struct answer_step *says)
{
    (void)c, (void)step;
    says->has_grad = true;
    memcpy(says->grad, trial_gradients, sizeof says->grad);
}

Test(judge_aspect, a_wrong_gradient_that_the_answer_tells_is_wrong_in_a_later_step_too)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct finding finding =
        state_finding(&c, NULL, &(struct wrong){.says = tells_its_gradient, .element = doubled_from_step_2});
    cr_assert_eq(finding.verdict, VERDICT_FAIL, "%s", finding.text);
    cr_assert_eq(finding.difference.step, 2);
}

// The state is made already: only the report is wrong.
static void tells_the_sum(const struct check_case *c, int step, struct answer_step *says)
{
    for (int i = 0; step == 2 && i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            trial_gradients[i][k] *= (float)c->world;
    tells_its_gradient(c, step, says);
}

static void tells_zeros_for_a_tensor(const struct check_case *c, int step, struct answer_step *says)
{
    if (step == 3)
        memset(trial_gradients[2], 0, c->params[2].count * sizeof(float));
    tells_its_gradient(c, step, says);
}

static struct finding reported_finding(void (*says)(const struct check_case *c, int step, struct answer_step *says))
{
    struct check_case c = trial_case(4, 1, DTYPE_FP32, false);
    strcpy(c.name, "red-rounding.test");
    struct findings findings = trial_judge(&c, NULL, &(struct wrong){.says = says});
    const struct finding *state = trial_finding(&findings, ASPECT_STATE);
    const struct finding *reported = trial_finding(&findings, ASPECT_GRADIENT);
    cr_assert(state && reported);
    cr_assert_eq(state->verdict, VERDICT_PASS, "%s", state->text);
    struct finding copy = *reported;
    findings_free(&findings);
    return copy;
}

Test(judge_aspect, a_gradient_that_is_reported_wrong_has_the_hint_of_a_gradient)
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
