// SPDX-License-Identifier: Apache-2.0
#include "results/limits/bench_finding.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <math.h>

static struct bench_findings findings;

static void add(enum finding_verdict verdict, const char *text)
{
    struct bench_finding finding = {.kind = "band", .verdict = verdict, .id = "x", .line = 7, .value = 0.5};
    snprintf(finding.text, sizeof finding.text, "%s", text);
    cr_assert_eq(bench_findings_add(&findings, &finding), ERR_NONE);
}

Test(finding, the_worst_decides_and_all_are_reported_in_order)
{
    cr_expect_eq(bench_findings_verdict(&findings), FINDING_VALID, "no findings");
    add(FINDING_VALID, "good");
    cr_expect_eq(bench_findings_verdict(&findings), FINDING_VALID);
    add(FINDING_INCOMPLETE, "unknown");
    cr_expect_eq(bench_findings_verdict(&findings), FINDING_INCOMPLETE);
    add(FINDING_INVALID, "slow");
    for (int i = 0; i < 200; i++)
        add(FINDING_VALID, "good");
    add(FINDING_INVALID, "slower");
    add(FINDING_INCOMPLETE, "unknown, too");
    cr_expect_eq(bench_findings_verdict(&findings), FINDING_INVALID);
    json_t *array = bench_findings_json(&findings);
    cr_assert_eq(json_array_size(array), 205);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(array, 2), "text")), "slow");
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(array, 203), "text")), "slower");
    json_decref(array);
    bench_findings_free(&findings);
}

Test(finding, a_record_without_line_or_value_has_null)
{
    struct bench_finding finding = {
        .kind = "part", .verdict = FINDING_INCOMPLETE, .id = "bench-adam", .value = NAN, .text = "t"};
    json_t *record = bench_finding_json(&finding);
    cr_assert_not_null(record);
    cr_expect(json_is_null(json_object_get(record, "line")));
    cr_expect(json_is_null(json_object_get(record, "value")));
    cr_expect_str_eq(json_string_value(json_object_get(record, "verdict")), "INCOMPLETE");
    json_decref(record);
    finding.line = 3;
    finding.value = 0.25;
    record = bench_finding_json(&finding);
    cr_expect_eq(json_integer_value(json_object_get(record, "line")), 3);
    cr_expect_eq(json_real_value(json_object_get(record, "value")), 0.25);
    json_decref(record);
}
