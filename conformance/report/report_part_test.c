// SPDX-License-Identifier: Apache-2.0
// Tests of what all reports say alike: differences in words, in every width and format, and the line that repeats one.
#include "conformance/report/report_part.h"

#include "conformance/suite/suite.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static struct check_case c = {
    .name = "adam-basic.resume~2", .param_count = 2, .params = {{.name = "embed"}, {.name = "layer.0.weight"}}};

static const char *values_of(const char *what, int bits, uint64_t expected, uint64_t actual, double roundings)
{
    static char out[DIFFERENCE_TEXT_BYTES];
    struct finding finding = {
        .c = &c,
        .has_difference = true,
        .difference = {
            .what = what, .bits = bits, .expected_bits = expected, .actual_bits = actual, .roundings = roundings}};
    return difference_values(&finding, out);
}

Test(report_part, bits_are_numbers_of_their_format)
{
    c.precision = DTYPE_BF16;
    cr_assert_str_eq(values_of("seen", 16, 0x3f80, 0xc000, NAN), "expected 0x3f80 (1), got 0xc000 (-2)");
    c.precision = DTYPE_FP16;
    cr_assert_str_eq(values_of("seen", 16, 0x3c00, 0xc000, NAN), "expected 0x3c00 (1), got 0xc000 (-2)");
    cr_assert_str_eq(values_of("seen", 16, 0x0001, 0x7c00, NAN), "expected 0x0001 (5.9605e-08), got 0x7c00 (inf)");
    cr_assert_str_eq(values_of("param", 32, 0x3f800000, 0x3f800001, 1),
                     "expected 0x3f800000 (1), got 0x3f800001 (1.00000012), 1 rounding apart");
    cr_assert_str_eq(values_of("param", 32, 0, 0x80000000, 0.5),
                     "expected 0x00000000 (0), got 0x80000000 (-0), 0.5 roundings apart");
    cr_assert_str_eq(values_of("norm", 64, 0x3ff0000000000000, 0x3ff0000000000001, INFINITY),
                     "expected 0x3ff0000000000000 (1), got 0x3ff0000000000001 (1.0000000000000002), inf roundings "
                     "apart");
    cr_assert_str_eq(values_of("loss_scale", 64, 0x4090000000000000, 0x40f0000000000000, NAN),
                     "expected 0x4090000000000000 (1024), got 0x40f0000000000000 (65536)");
    cr_assert_str_eq(values_of("t", 64, 3, UINT64_MAX, NAN),
                     "expected 0x0000000000000003 (3), got 0xffffffffffffffff (18446744073709551615)");
}

Test(report_part, how_many_differ_is_said_where_it_was_counted)
{
    char out[DIFFERENCE_TEXT_BYTES];
    struct finding finding = {
        .c = &c,
        .difference = {
            .what = "grad", .bits = 32, .roundings = NAN, .differing_count = UINT64_MAX, .compared_count = UINT64_MAX}};
    cr_assert_str_eq(difference_values(&finding, out),
                     "expected 0x00000000 (0), got 0x00000000 (0); 18446744073709551615 of 18446744073709551615 "
                     "elements differ in this step");
}

Test(report_part, a_place_has_what_applies_to_it)
{
    char out[DIFFERENCE_TEXT_BYTES];
    struct finding finding = {.c = &c, .difference = {.step = 2, .rank = -1, .micro = -1, .param = -1, .what = "t"}};
    cr_assert_str_eq(difference_location(&finding, out), "step 2, t");
    finding.difference =
        (struct difference){.step = 2, .rank = 0, .micro = -1, .param = 1, .what = "exp_avg", .element = 1000000};
    cr_assert_str_eq(difference_location(&finding, out), "step 2, rank 0, exp_avg of layer.0.weight, element 1000000");
    finding.difference.micro = 3;
    finding.difference.param = 0;
    finding.difference.element = 0;
    cr_assert_str_eq(difference_location(&finding, out), "step 2, rank 0, micro-step 3, exp_avg of embed, element 0");
    // An index that the case lacks is none.
    finding.difference.param = 2;
    cr_assert_str_eq(difference_location(&finding, out), "step 2, rank 0, micro-step 3, exp_avg");
    finding.c = NULL;
    finding.difference.param = 0;
    finding.difference.what = NULL;
    cr_assert_str_eq(difference_location(&finding, out), "step 2, rank 0, micro-step 3, ");
    cr_assert_str_eq(finding_location(&finding, out), "all cases, answer");
}

static struct run_facts part_facts = {.level = "full", .seed = 7};

static const char *repeat_of(const char *name, enum case_phase phase, enum aspect aspect)
{
    static char out[REPEAT_TEXT_BYTES];
    struct finding finding = {.c = &c, .aspect = aspect};
    snprintf(c.name, sizeof c.name, "%s", name);
    c.phase = phase;
    return repeat_text(&part_facts, &finding, out);
}

#define START "zerogauge check --level full "

Test(report_part, one_case_is_repeated_alone_twins_together_and_what_needs_the_order_as_a_run)
{
    cr_assert_str_eq(repeat_of("adam-l2.w2.s0.fp32", PHASE_WHOLE, ASPECT_STATE), START "--case adam-l2.w2.s0.fp32 ");
    cr_assert_str_eq(repeat_of("adam-l2.w2.s0.fp32~2", PHASE_WHOLE, ASPECT_STATE), START "--case adam-l2.w2.s0.fp32 ");
    cr_assert_str_eq(repeat_of("adam-l2", PHASE_WHOLE, ASPECT_ANSWER), START "--case adam-l2 ");
    cr_assert_str_eq(repeat_of("ckpt-lr.w2.fp32.save", PHASE_SAVE, ASPECT_SEEN), START "--case ckpt-lr.w2.fp32 ");
    cr_assert_str_eq(repeat_of("ckpt-lr.w2.fp32.resume~2", PHASE_RESUME, ASPECT_DECISION),
                     START "--case ckpt-lr.w2.fp32 ");
    cr_assert_str_eq(repeat_of("ckpt-lr.w2.fp32.whole", PHASE_WHOLE, ASPECT_STATE),
                     START "--case ckpt-lr.w2.fp32.whole ");
    cr_assert_str_eq(repeat_of("part-tied.w2.s3.fp32~2", PHASE_WHOLE, ASPECT_SAME), START "--case 'part-tied.*' ");
    cr_assert_str_eq(repeat_of("part-tied.w2.s3.fp32~2", PHASE_WHOLE, ASPECT_REPEAT), START);
    cr_assert_str_eq(repeat_of("part-tied.w2.s3.fp32", PHASE_WHOLE, ASPECT_RULE), START);
    const struct run_facts facts = {.level = "quick", .seed = UINT64_MAX};
    struct finding finding = {.c = NULL, .aspect = ASPECT_STATE};
    char out[REPEAT_TEXT_BYTES];
    cr_assert_str_eq(repeat_text(&facts, &finding, out), "zerogauge check --level quick ");
}

Test(report_part, what_needs_the_order_is_repeated_with_the_part_that_was_run)
{
    char out[RUN_TEXT_BYTES];
    struct findings none = {0};
    cr_assert_str_eq(run_text(&part_facts, &none, RUN_CONFORMS, out), "every MUST is fulfilled");
    part_facts.part = "--requirement R-DET-01 --case 'adam-*'";
    cr_assert_str_eq(repeat_of("adam-l2.w2.s0.fp32", PHASE_WHOLE, ASPECT_REPEAT),
                     START "--requirement R-DET-01 --case 'adam-*' ");
    cr_assert_str_eq(repeat_of("adam-l2.w2.s0.fp32", PHASE_WHOLE, ASPECT_STATE), START "--case adam-l2.w2.s0.fp32 ");
    cr_assert_str_eq(run_text(&part_facts, &none, RUN_CONFORMS, out),
                     "only a part of the suite was run: --requirement R-DET-01 --case 'adam-*'");
    part_facts.part = NULL;
}

Test(report_part, the_verdict_says_how_many_cases_were_answered_and_what_shows_sharding)
{
    struct check_case cases[4] = {{.name = "adam-l2.w2.s0.fp32", .world = 2},
                                  {.name = "adam-l2.w2.s1.fp32", .world = 2, .stage = 1},
                                  {.name = "adam-l2.w2.s2.fp32", .world = 2, .stage = 2},
                                  {.name = "adam-l2.w2.s3.fp32", .world = 2, .stage = 3}};
    struct finding list[8];
    struct findings findings = {.list = list};
    char out[RUN_TEXT_BYTES];
    for (int i = 0; i < 4; i++) {
        list[2 * i] = (struct finding){.c = &cases[i], .aspect = ASPECT_ANSWER, .verdict = VERDICT_PASS};
        list[2 * i + 1] = (struct finding){.c = &cases[i], .aspect = ASPECT_STATE, .verdict = VERDICT_PASS};
    }
    findings.count = 8;
    list[0].absence = ABSENT_UNCLAIMED;
    list[2].absence = ABSENT_DECLINED;
    cr_assert_str_eq(run_text(&part_facts, &findings, RUN_CONFORMS_PARTLY, out),
                     "what was judged is right; 2 of 4 cases were answered, 1 are not claimed, 1 were declined");
    list[3].aspect = ASPECT_SEEN;
    list[3].verdict = VERDICT_UNSUPPORTED;
    list[1].aspect = ASPECT_SEEN;  // of an unsharded case
    cr_assert_not_null(strstr(run_text(&part_facts, &findings, RUN_CONFORMS_PARTLY, out),
                              "1 were declined; no evidence that states are sharded"));
    list[5].aspect = ASPECT_MEMORY;
    cr_assert_null(strstr(run_text(&part_facts, &findings, RUN_CONFORMS_PARTLY, out), "no evidence"));
}

// A measurement counts in place of the program's own word.
Test(report_part, observations_decide_whether_there_is_evidence)
{
    const struct check_case sharded = {.name = "adam-l2.w2.s3.fp32", .world = 2, .stage = 3};
    struct finding list[] = {{.c = &sharded, .aspect = ASPECT_MEMORY, .verdict = VERDICT_PASS}};
    struct findings findings = {.list = list, .count = 1};
    struct run_facts facts = {.observations = {.count = 1}};
    struct observation *observation = &facts.observations.list[0];
    char out[RUN_TEXT_BYTES];
    *observation = (struct observation){
        .stage = 3, .world = 2, .peak_bytes = 80, .unsharded_peak_bytes = 100, .formula_saved_bytes = 50};
    cr_assert_str_eq(run_text(&facts, &findings, RUN_CONFORMS, out),
                     "every MUST is fulfilled; no evidence that states are sharded");
    list[0].verdict = VERDICT_UNSUPPORTED;
    observation->peak_bytes = 75;
    cr_assert_str_eq(run_text(&facts, &findings, RUN_CONFORMS, out), "every MUST is fulfilled");
    snprintf(observation->why, sizeof observation->why, "declined");
    cr_assert_not_null(strstr(run_text(&facts, &findings, RUN_CONFORMS, out), "no evidence"));
}

// The line selects existing cases: the finding's own case, or all of its topic.
static int check_selected(void *context, const struct check_case *item)
{
    size_t *count = context;
    char out[REPEAT_TEXT_BYTES], pattern[CASE_NAME_BYTES], whole[CASE_NAME_BYTES];
    const struct run_facts facts = {.level = "full"};
    struct finding finding = {.c = item, .aspect = ASPECT_STATE};
    snprintf(whole, sizeof whole, "%s", item->name);
    if (item->phase != PHASE_WHOLE)
        *strrchr(whole, '.') = '\0';
    cr_assert_eq(sscanf(repeat_text(&facts, &finding, out), START "--case %95s", pattern), 1);
    cr_assert_str_eq(pattern, whole);
    // Twins are of one topic.
    cr_assert(!item->twin[0] || strncmp(item->twin, item->name, strcspn(item->name, ".") + 1) == 0, "%s and %s",
              item->twin, item->name);
    ++*count;
    return 0;
}

Test(report_part, every_case_of_the_suite_can_be_repeated)
{
    size_t count = 0;
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = LEVEL_FULL}, check_selected, &count), 0);
    cr_assert_geq(count, 100);
}

Test(report_part, counts_are_reported_from_pass_to_broken)
{
    char out[COUNTS_TEXT_BYTES];
    size_t counts[VERDICT_COUNT] = {0};
    cr_assert_str_eq(counts_text(counts, out), "");
    counts[VERDICT_BROKEN] = 3;
    cr_assert_str_eq(counts_text(counts, out), "3 BROKEN");
    counts[VERDICT_UNSUPPORTED] = 2;
    counts[VERDICT_PASS] = 1;
    cr_assert_str_eq(counts_text(counts, out), "1 PASS, 3 BROKEN, 2 UNSUPPORTED");
    for (int i = 0; i < VERDICT_COUNT; i++)
        counts[i] = SIZE_MAX;
    cr_assert_lt(strlen(counts_text(counts, out)), COUNTS_TEXT_BYTES);
}
