// SPDX-License-Identifier: Apache-2.0
// The hint of a step that is skipped and must not be, or the other way round.
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

Test(judge_decision, a_skip_after_a_skip_may_be_left_over_from_it)
{
    assert_hint(2, 0, 2, HINT_LEFT_OVER);
    assert_hint(3, 0, 3, HINT_OVERFLOW);
    assert_hint(0, 1, 1, HINT_OVERFLOW);
}
