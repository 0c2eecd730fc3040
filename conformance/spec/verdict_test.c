// SPDX-License-Identifier: Apache-2.0
// Tests of verdicts: no finding is lost on its way to its requirement, to the run's verdict and to the exit status.
#include "conformance/spec/verdict.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct requirement must = {.id = "R-A-01", .must = true}, should = {.id = "R-B-01", .must = false};

// A case of a name, one of a few that a test's process has.
static const struct check_case *named(const char *name)
{
    static struct check_case cases[REQUIREMENT_MAX];
    static int used;
    cr_assert_lt(used, REQUIREMENT_MAX);
    struct check_case *c = &cases[used++];
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

static void add(struct findings *findings, const struct check_case *c, enum aspect aspect, enum verdict verdict)
{
    struct finding finding = {.c = c, .aspect = aspect, .verdict = verdict};
    cr_assert_eq(findings_add(findings, &finding), ERR_NONE);
}

static int index_of(const char *id)
{
    for (int i = 0; requirement_at(i); i++) {
        if (strcmp(requirement_at(i)->id, id) == 0)
            return i;
    }
    cr_assert_fail("%s", id);
    return -1;
}

Test(verdict, names_are_different_and_complete)
{
    for (int i = 0; i < VERDICT_COUNT; i++) {
        cr_assert_not_null(verdict_name((enum verdict)i), "%d", i);
        for (int k = 0; k < i; k++)
            cr_assert_str_neq(verdict_name((enum verdict)i), verdict_name((enum verdict)k));
    }
    cr_assert_str_eq(verdict_name(VERDICT_PASS), "PASS");
    cr_assert_str_eq(verdict_name(VERDICT_BROKEN), "BROKEN");
    for (int i = RUN_CONFORMS; i <= RUN_NOTHING; i++) {
        for (int k = RUN_CONFORMS; k < i; k++)
            cr_assert_str_neq(run_verdict_name((enum run_verdict)i), run_verdict_name((enum run_verdict)k));
    }
}

Test(verdict, every_hint_has_a_name_and_names_the_first_thing_to_check)
{
    cr_assert_str_eq(hint_text(HINT_NONE), "");
    for (int i = HINT_NONE; i < HINT_COUNT; i++) {
        const char *name = hint_name((enum hint)i), *text = hint_text((enum hint)i);
        cr_assert_not_null(name, "%d", i);
        for (const char *c = name; *c; c++)
            cr_assert(islower((unsigned char)*c) || *c == '-', "%s", name);
        for (int k = HINT_NONE; k < i; k++) {
            cr_assert_str_neq(name, hint_name((enum hint)k));
            cr_assert_str_neq(text, hint_text((enum hint)k));
        }
        if (i == HINT_NONE)
            continue;
        cr_assert_not_null(strstr(text, ". Check "), "%s: %s", name, text);
        cr_assert(isupper((unsigned char)text[0]), "%s", name);
        cr_assert(strchr(".?", text[strlen(text) - 1]), "%s", name);
        cr_assert_null(strstr(text, "  "), "%s", name);
    }
    cr_assert_str_eq(hint_name(HINT_FACTOR_WORLD), "factor-world");
    cr_assert_str_eq(hint_name(HINT_OTHER), "other");
}

Test(verdict, findings_are_kept_in_order_and_as_they_were)
{
    struct findings findings = {0};
    const struct check_case *c = named("adam-basic");
    for (int i = 0; i < 1009; i++) {
        struct finding finding = {.c = c, .has_difference = true, .difference.step = i};
        snprintf(finding.text, sizeof finding.text, "text %d", i);
        cr_assert_eq(findings_add(&findings, &finding), ERR_NONE);
    }
    cr_assert_eq(findings.count, 1009);
    for (int i = 0; i < 1009; i++) {
        char text[32];
        snprintf(text, sizeof text, "text %d", i);
        cr_assert_str_eq(findings.list[i].text, text);
        cr_assert_eq(findings.list[i].difference.step, i);
    }
    findings_free(&findings);
    cr_assert_null(findings.list);
    findings_free(&findings);
}

Test(verdict, a_finding_serves_the_requirements_that_look_at_its_aspect_of_its_case)
{
    struct finding finding = {.c = named("clip-above~2"), .aspect = ASPECT_NORM};
    cr_assert(finding_serves(&finding, requirement_find("R-CLIP-01")));
    cr_assert_not(finding_serves(&finding, requirement_find("R-CLIP-03")), "it looks at state alone");
    cr_assert_not(finding_serves(&finding, requirement_find("R-CLIP-04")), "it looks at other cases");
    finding.aspect = ASPECT_STATE;
    cr_assert(finding_serves(&finding, requirement_find("R-CLIP-03")));
    struct finding rule = {.c = NULL, .aspect = ASPECT_RULE};
    cr_assert(finding_serves(&rule, requirement_find("R-DET-03")));
    cr_assert_not(finding_serves(&rule, requirement_find("R-DET-01")));
}

Test(verdict, a_requirement_without_finding_is_unsupported)
{
    struct findings findings = {0};
    struct requirement_verdict verdicts[REQUIREMENT_MAX];
    int count = verdicts_of(&findings, verdicts);
    cr_assert_geq(count, 70);
    for (int i = 0; i < count; i++) {
        cr_assert_eq(verdicts[i].requirement, requirement_at(i));
        cr_assert_eq(verdicts[i].verdict, VERDICT_UNSUPPORTED);
        cr_assert_null(verdicts[i].worst);
        for (int v = 0; v < VERDICT_COUNT; v++)
            cr_assert_eq(verdicts[i].counts[v], 0);
    }
    cr_assert_eq(run_verdict_of(verdicts, count, false), RUN_NOTHING);
}

Test(verdict, the_worst_finding_decides_wherever_it_stands)
{
    const struct check_case *c = named("adam-l2");
    int index = index_of("R-OPT-04");
    const struct check_case *other = named("adam-eps");
    // Every pair of verdicts, in both orders, with two of a third kind around.
    for (int a = 0; a < VERDICT_COUNT; a++) {
        for (int b = 0; b < VERDICT_COUNT; b++) {
            struct findings findings = {0};
            struct requirement_verdict verdicts[REQUIREMENT_MAX];
            add(&findings, c, ASPECT_STATE, (enum verdict)a);
            add(&findings, c, ASPECT_DECISION, VERDICT_BROKEN);
            add(&findings, c, ASPECT_STATE, (enum verdict)b);
            add(&findings, other, ASPECT_STATE, VERDICT_FAIL);
            add(&findings, c, ASPECT_STATE, VERDICT_UNSUPPORTED);
            verdicts_of(&findings, verdicts);
            const struct requirement_verdict *verdict = &verdicts[index];
            enum verdict worst = a > b ? a : b;
            cr_assert_eq(verdict->verdict, worst, "%d and %d", a, b);
            // A wrong bit is shown before a missing answer, and otherwise the first of the worst.
            bool first = a == b || (a >= VERDICT_FAIL && b >= VERDICT_FAIL ? a == VERDICT_FAIL : a > b);
            cr_assert_eq(verdict->worst, &findings.list[first ? 0 : 2], "%d and %d", a, b);
            for (int v = 0; v < VERDICT_COUNT; v++)
                cr_assert_eq(verdict->counts[v], (size_t)(v == a) + (v == b) + (v == VERDICT_UNSUPPORTED));
            findings_free(&findings);
        }
    }
}

static const struct finding *shown(struct findings *findings, enum hint first, uint64_t first_count, enum hint second,
                                   uint64_t second_count)
{
    const struct check_case *c = named("adam-l2");
    struct finding finding = {.c = c, .aspect = ASPECT_STATE, .verdict = VERDICT_FAIL, .has_difference = true};
    findings->count = 0;
    finding.hint = first;
    finding.difference.differing_count = first_count;
    cr_assert_eq(findings_add(findings, &finding), ERR_NONE);
    finding.hint = second;
    finding.difference.differing_count = second_count;
    cr_assert_eq(findings_add(findings, &finding), ERR_NONE);
    return verdict_of(findings, requirement_find("R-OPT-04")).worst;
}

Test(verdict, of_the_worst_findings_the_one_whose_hint_tells_most_is_shown)
{
    struct findings all = {0};
    cr_expect_eq(shown(&all, HINT_GRADIENT, 9, HINT_ONE_MICRO_STEP, 1), &all.list[1], "numbers tell more than nothing");
    cr_expect_eq(shown(&all, HINT_GRADIENT, 9, HINT_TAIL, 1), &all.list[1], "places tell more than nothing");
    cr_expect_eq(shown(&all, HINT_BUCKET, 9, HINT_SHIFTED, 1), &all.list[1], "numbers tell more than places");
    cr_expect_eq(shown(&all, HINT_SHIFTED, 1, HINT_BUCKET, 9), &all.list[0]);
    cr_expect_eq(shown(&all, HINT_BUCKET, 1, HINT_TAIL, 2), &all.list[1], "more elements tell more of places");
    cr_expect_eq(shown(&all, HINT_BUCKET, 2, HINT_TAIL, 2), &all.list[0], "the first of two that tell as much");
    cr_expect_eq(shown(&all, HINT_CLIP, 1, HINT_LR, 2), &all.list[0]);
    cr_expect_eq(shown(&all, HINT_CLIP, 9, HINT_OVERFLOW, 1), &all.list[1], "a decision is no matter of its norm");
    cr_expect_eq(shown(&all, HINT_OVERFLOW, 9, HINT_UNSET, 1), &all.list[1], "what is unset may be inf");
    cr_expect_eq(shown(&all, HINT_UNSET, 1, HINT_CLIP, 9), &all.list[0]);
    cr_expect_eq(shown(&all, HINT_TAIL, 1, HINT_NOT_UPDATED, 9), &all.list[0], "where is why");
    cr_expect_eq(shown(&all, HINT_NOT_UPDATED, 9, HINT_TAIL, 1), &all.list[1]);
    all.list[0].verdict = VERDICT_BROKEN;
    cr_expect_eq(verdict_of(&all, requirement_find("R-OPT-04")).worst, &all.list[1], "a wrong bit tells more");
    cr_expect_eq(verdict_of(&all, requirement_find("R-OPT-04")).verdict, VERDICT_BROKEN, "what is broken is worse");
    shown(&all, HINT_RESUME, 1, HINT_LR, 1);
    struct check_case resumes = *all.list[0].c;
    resumes.phase = PHASE_RESUME;
    all.list[0].c = &resumes;
    cr_expect_eq(verdict_of(&all, requirement_find("R-OPT-04")).worst, &all.list[1], "the other needs no checkpoint");
    all.list[1].hint = HINT_OTHER;
    cr_expect_eq(verdict_of(&all, requirement_find("R-OPT-04")).worst, &all.list[1], "no checkpoint is to blame");
    all.list[1].hint = HINT_LR;
    all.list[1].c = &resumes;
    cr_expect_eq(verdict_of(&all, requirement_find("R-OPT-04")).worst, &all.list[0], "both need one");
    findings_free(&all);
}

Test(verdict, what_fails_by_one_cause_is_found_at_its_first_requirement)
{
    const struct check_case *one = named("adam-l2"), *other = named("adam-eps");
    static const char exits[] = "the command exited with status 1: ImportError: no zero (output/w2.txt)";
    static const char again[] = "the command exited with status 1: ImportError: no zero (output/w12.txt)";
    const struct finding findings[] = {
        {.c = one, .verdict = VERDICT_PASS},
        {.c = one, .verdict = VERDICT_FAIL, .hint = HINT_LR},
        {.c = other, .verdict = VERDICT_FAIL, .hint = HINT_DECAY},
        {.c = other, .verdict = VERDICT_FAIL, .hint = HINT_LR},  // as 1: numbers tell the hint
        {.c = one, .verdict = VERDICT_FAIL, .hint = HINT_BUCKET},
        {.c = other, .verdict = VERDICT_FAIL, .hint = HINT_BUCKET},  // another place
        {.c = other, .verdict = VERDICT_FAIL, .hint = HINT_BUCKET},  // as 5: in the same case
        {.c = one, .verdict = VERDICT_BROKEN, .text = "step-2.safetensors is not there"},
        {.c = one, .verdict = VERDICT_BROKEN, .text = "step-3.safetensors is not there"},
        {.c = other, .verdict = VERDICT_BROKEN, .text = "step-2.safetensors is not there"},  // as 7
        {.c = one, .verdict = VERDICT_FAIL},
        {.c = one, .verdict = VERDICT_FAIL},  // no reason is no cause
    };
    static const int first[] = {0, 1, 2, 1, 4, 5, 5, 7, 8, 7, 10, 11};
    enum { COUNT = sizeof first / sizeof *first };
    struct finding crashes[2] = {{.c = one, .verdict = VERDICT_BROKEN}, {.c = other, .verdict = VERDICT_BROKEN}};
    struct requirement_verdict verdicts[COUNT];
    for (int i = 0; i < COUNT; i++)
        verdicts[i] = (struct requirement_verdict){&must, findings[i].verdict, .worst = &findings[i]};
    for (int i = 1; i < COUNT; i++)
        cr_expect_eq(verdict_first_of_cause(verdicts, &verdicts[i]) - verdicts, first[i], "%d", i);
    strcpy(crashes[0].text, exits);
    strcpy(crashes[1].text, again);
    verdicts[7].worst = &crashes[0];
    verdicts[9].worst = &crashes[1];
    cr_expect_eq(verdict_first_of_cause(verdicts, &verdicts[9]), &verdicts[7], "but for the file that tells more");
    crashes[1].text[40] = 'x';
    cr_expect_eq(verdict_first_of_cause(verdicts, &verdicts[9]), &verdicts[9]);
}

// The run's verdict over two MUST and two SHOULD.
static enum run_verdict run_of(enum verdict a, enum verdict b, enum verdict should_a, enum verdict should_b,
                               bool command_failed)
{
    const struct requirement_verdict verdicts[] = {{.requirement = &should, .verdict = should_a},
                                                   {.requirement = &must, .verdict = a},
                                                   {.requirement = &must, .verdict = b},
                                                   {.requirement = &should, .verdict = should_b}};
    return run_verdict_of(verdicts, 4, command_failed);
}

Test(verdict, every_pair_of_musts_gives_the_run_its_verdict)
{
    for (int a = 0; a < VERDICT_COUNT; a++) {
        for (int b = 0; b < VERDICT_COUNT; b++) {
            enum run_verdict expected = RUN_CONFORMS;
            if (a == VERDICT_FAIL || a == VERDICT_BROKEN || b == VERDICT_FAIL || b == VERDICT_BROKEN)
                expected = RUN_FAILS;
            else if (a == VERDICT_UNSUPPORTED && b == VERDICT_UNSUPPORTED)
                expected = RUN_NOTHING;
            else if (a == VERDICT_UNSUPPORTED || b == VERDICT_UNSUPPORTED || a == VERDICT_PARTLY || b == VERDICT_PARTLY)
                expected = RUN_CONFORMS_PARTLY;
            // A SHOULD changes nothing, whatever it is.
            for (int s = 0; s < VERDICT_COUNT; s++) {
                cr_assert_eq(run_of(a, b, s, VERDICT_PASS, false), expected, "%d %d", a, b);
                cr_assert_eq(run_of(a, b, VERDICT_UNSUPPORTED, s, false), expected, "%d %d", a, b);
                cr_assert_eq(run_of(a, b, s, VERDICT_PASS, true), RUN_FAILS, "%d %d", a, b);
            }
        }
    }
    cr_assert_eq(run_verdict_of(NULL, 0, false), RUN_NOTHING);
    cr_assert_eq(run_verdict_of(NULL, 0, true), RUN_FAILS);
}

Test(verdict, a_should_decides_where_nothing_else_was_asked_for)
{
    static const enum run_verdict expected[VERDICT_COUNT] = {
        [VERDICT_UNSUPPORTED] = RUN_NOTHING,    [VERDICT_PASS] = RUN_CONFORMS, [VERDICT_EQUIVALENT] = RUN_CONFORMS,
        [VERDICT_BOUNDED] = RUN_CONFORMS,       [VERDICT_FAIL] = RUN_FAILS,    [VERDICT_BROKEN] = RUN_FAILS,
        [VERDICT_PARTLY] = RUN_CONFORMS_PARTLY,
    };
    for (int v = 0; v < VERDICT_COUNT; v++) {
        const struct requirement_verdict verdicts[] = {{.requirement = &should, .verdict = (enum verdict)v}};
        cr_assert_eq(run_verdict_of(verdicts, 1, false), expected[v], "%d", v);
    }
}

Test(verdict, exit_statuses_do_not_hide_a_failure)
{
    static const int statuses[] = {0, 0, 1, 77};
    for (int i = RUN_CONFORMS; i <= RUN_NOTHING; i++) {
        cr_assert_eq(run_verdict_exit_status((enum run_verdict)i, false), statuses[i]);
        cr_assert_eq(run_verdict_exit_status((enum run_verdict)i, true), i != RUN_CONFORMS);
    }
}

static void add_absent(struct findings *findings, const struct check_case *c, enum aspect aspect, enum absence absence)
{
    struct finding finding = {.c = c, .aspect = aspect, .verdict = VERDICT_UNSUPPORTED, .absence = absence};
    cr_assert_eq(findings_add(findings, &finding), ERR_NONE);
}

Test(verdict, a_requirement_with_a_case_that_was_declined_is_at_most_partly_fulfilled)
{
    for (int v = 0; v < VERDICT_COUNT; v++) {
        struct findings findings = {0};
        const struct check_case *c = named("adam-l2");
        add_absent(&findings, c, ASPECT_STATE, ABSENT_UNCLAIMED);
        if (v != VERDICT_UNSUPPORTED)
            add(&findings, c, ASPECT_STATE, (enum verdict)v);
        add_absent(&findings, c, ASPECT_STATE, ABSENT_DECLINED);
        struct requirement_verdict verdict = verdict_of(&findings, requirement_find("R-OPT-04"));
        enum verdict expected = v == VERDICT_UNSUPPORTED || v >= VERDICT_PARTLY ? (enum verdict)v : VERDICT_PARTLY;
        cr_assert_eq(verdict.verdict, expected, "%d", v);
        if (expected <= VERDICT_PARTLY && v != VERDICT_PARTLY)
            cr_assert_eq(verdict.worst->absence, ABSENT_DECLINED, "what was claimed says more");
        findings_free(&findings);
    }
}

Test(verdict, of_what_is_not_claimed_the_case_that_lacks_least_is_shown)
{
    struct findings findings = {0};
    struct finding finding = {.c = named("adam-l2"), .aspect = ASPECT_STATE, .absence = ABSENT_UNCLAIMED, .lack = 3};
    static const int lacks[] = {3, 2, 1, 1, 4};
    for (int i = 0; i < 5; i++) {
        finding.lack = lacks[i];
        cr_assert_eq(findings_add(&findings, &finding), ERR_NONE);
    }
    cr_assert_eq(verdict_of(&findings, requirement_find("R-OPT-04")).worst, &findings.list[2]);
    add(&findings, finding.c, ASPECT_STATE, VERDICT_PASS);
    cr_assert_eq(verdict_of(&findings, requirement_find("R-OPT-04")).worst, &findings.list[2], "PARTLY");
    findings_free(&findings);
}

// The other half of a pair of twins has nothing to do with what the requirement is about.
Test(verdict, a_right_answer_is_a_credit_only_where_the_case_has_what_the_requirement_needs)
{
    struct check_case here = {.name = "nvme-basic.w2.s1.fp32.none"}, there = {.name = "nvme-basic.w2.s1.fp32.nvme"};
    there.offload_optimizer = TIER_NVME;
    const struct requirement *nvme = requirement_find("R-NVME-01");
    struct finding right = {.c = &here, .aspect = ASPECT_STATE, .verdict = VERDICT_PASS};
    struct finding wrong = {.c = &here, .aspect = ASPECT_STATE, .verdict = VERDICT_FAIL};
    struct finding same = {.c = &here, .aspect = ASPECT_SAME, .verdict = VERDICT_PASS};
    cr_assert_not(finding_serves(&right, nvme));
    cr_assert(finding_serves(&wrong, nvme), "an error is one wherever it is");
    cr_assert_not(finding_serves(&same, nvme));
    same.twin = &there;
    cr_assert(finding_serves(&same, nvme));
    right.c = &there;
    cr_assert(finding_serves(&right, nvme));
}

static enum hint hint_of(const enum hint hints[], int count)
{
    struct check_case resumed = {.name = "red-buckets.w2.s1.fp32", .phase = PHASE_RESUME};
    const struct check_case *whole = named("red-buckets");
    struct findings findings = {0};
    for (int i = 0; i < 2 * count; i++) {
        struct finding finding = {.c = i < count ? whole : &resumed,
                                  .aspect = ASPECT_STATE,
                                  .verdict = VERDICT_FAIL,
                                  .hint = hints[i % count]};
        finding.difference.what = "exp_avg";
        if (i >= count)
            finding.hint = HINT_FACTOR_WORLD;
        cr_assert_eq(findings_add(&findings, &finding), ERR_NONE);
    }
    enum hint hint = verdict_of(&findings, requirement_find("R-RED-02")).worst->hint;
    findings_free(&findings);
    return hint;
}

Test(verdict, whole_tensors_tell_more_than_the_factor_that_fewer_answers_show)
{
    cr_assert_eq(hint_of((enum hint[]){HINT_BUCKET, HINT_FACTOR_WORLD, HINT_BUCKET}, 3), HINT_BUCKET);
    cr_assert_eq(hint_of((enum hint[]){HINT_FACTOR_WORLD, HINT_BUCKET, HINT_FACTOR_WORLD}, 3), HINT_FACTOR_WORLD);
    cr_assert_eq(hint_of((enum hint[]){HINT_FACTOR_WORLD, HINT_BUCKET}, 2), HINT_FACTOR_WORLD);
}

Test(verdict, the_share_counts_each_case_once)
{
    struct findings findings = {0};
    add(&findings, named("adam-l2"), ASPECT_ANSWER, VERDICT_PASS);
    add(&findings, named("adam-l2"), ASPECT_STATE, VERDICT_PASS);
    add(&findings, named("adam-l2~2"), ASPECT_ANSWER, VERDICT_PASS);
    add(&findings, named("adam-eps"), ASPECT_ANSWER, VERDICT_BROKEN);
    add_absent(&findings, named("adam-lr"), ASPECT_ANSWER, ABSENT_UNCLAIMED);
    add_absent(&findings, named("adam-lr"), ASPECT_STATE, ABSENT_UNCLAIMED);
    add_absent(&findings, named("adam-zero"), ASPECT_ANSWER, ABSENT_DECLINED);
    struct case_share share = case_share_of(&findings);
    cr_assert_eq(share.all, 4);
    cr_assert_eq(share.unclaimed, 1);
    cr_assert_eq(share.declined, 1);
    findings_free(&findings);
}

Test(verdict, one_failing_finding_fails_the_run_at_every_requirement)
{
    for (int i = 0; requirement_at(i); i++) {
        const struct requirement *requirement = requirement_at(i);
        char name[CASE_NAME_BYTES];
        snprintf(name, sizeof name, "%s", requirement->patterns[requirement->pattern_count - 1]);
        const struct check_case *c = named(name);  // the pattern matches itself, '*' included
        for (int aspect = 0; aspect < ASPECT_COUNT; aspect++) {
            if (!(requirement->aspects & 1u << aspect))
                continue;
            struct findings findings = {0};
            struct requirement_verdict verdicts[REQUIREMENT_MAX];
            add(&findings, c, (enum aspect)aspect, VERDICT_PASS);
            add(&findings, c, (enum aspect)aspect, VERDICT_FAIL);
            add(&findings, c, (enum aspect)aspect, VERDICT_EQUIVALENT);
            int count = verdicts_of(&findings, verdicts);
            cr_assert_eq(verdicts[i].verdict, VERDICT_FAIL, "%s", requirement->id);
            enum run_verdict expected = requirement->must ? RUN_FAILS : RUN_NOTHING;
            cr_assert_eq(run_verdict_of(verdicts, count, false), expected, "%s", requirement->id);
            findings_free(&findings);
        }
    }
}
