// SPDX-License-Identifier: Apache-2.0
// The judge on the parameters that forward used.
#include "conformance/judge/judge_test.h"

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

static struct finding seen_finding(const struct wrong *wrong)
{
    struct check_case c = trial_case(2, 2, DTYPE_BF16, true);
    strcpy(c.name, "gather-steps.test");
    struct findings findings = trial_judge(&c, NULL, wrong);
    const struct finding *finding = trial_finding(&findings, ASPECT_SEEN);
    cr_assert_not_null(finding);
    struct finding copy = *finding;
    findings_free(&findings);
    return copy;
}

Test(judge_seen, what_forward_used_is_the_rounded_master)
{
    static const struct wrong nothing;
    struct finding finding = seen_finding(&nothing);
    cr_assert_eq(finding.verdict, VERDICT_PASS, "%s", finding.text);
    finding = seen_finding(&(struct wrong){.seen = older_on_rank_1});
    assert_fails(finding, HINT_STALE_COPY);
    cr_assert_eq(finding.difference.rank, 1);
    cr_assert_eq(finding.difference.step, 3);
    cr_assert_eq(finding.difference.param, 3);
    finding = seen_finding(&(struct wrong){.seen = truncated});
    assert_fails(finding, HINT_ROUNDING);
    finding = seen_finding(&(struct wrong){.seen = moved_by_one});
    assert_fails(finding, HINT_SHIFTED);
    finding = seen_finding(&(struct wrong){.seen = not_gathered});
    assert_fails(finding, HINT_FOREIGN_COPY);
    cr_assert_eq(finding.difference.step, 2);
}
