// SPDX-License-Identifier: Apache-2.0
#include "results/limits/judgement.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <math.h>

static struct judgements judgements;

static void add(enum judged verdict, const char *text)
{
    struct judgement judgement = {.kind = "band", .verdict = verdict, .id = "x", .line = 7, .value = 0.5};
    snprintf(judgement.text, sizeof judgement.text, "%s", text);
    cr_assert_eq(judgements_add(&judgements, &judgement), ERR_NONE);
}

Test(judgement, the_worst_decides_and_all_are_told_in_their_order)
{
    cr_expect_eq(judgements_verdict(&judgements), JUDGED_VALID, "nothing was found wrong");
    add(JUDGED_VALID, "good");
    cr_expect_eq(judgements_verdict(&judgements), JUDGED_VALID);
    add(JUDGED_INCOMPLETE, "unknown");
    cr_expect_eq(judgements_verdict(&judgements), JUDGED_INCOMPLETE);
    add(JUDGED_INVALID, "slow");
    for (int i = 0; i < 200; i++)
        add(JUDGED_VALID, "good");
    add(JUDGED_INVALID, "slower");
    add(JUDGED_INCOMPLETE, "unknown, too");
    cr_expect_eq(judgements_verdict(&judgements), JUDGED_INVALID);
    json_t *findings = judgements_json(&judgements);
    cr_assert_eq(json_array_size(findings), 205);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(findings, 2), "text")), "slow");
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(findings, 203), "text")), "slower");
    json_decref(findings);
    judgements_free(&judgements);
}

Test(judgement, a_record_has_null_where_there_is_no_line_and_no_value)
{
    struct judgement judgement = {
        .kind = "part", .verdict = JUDGED_INCOMPLETE, .id = "bench-adam", .value = NAN, .text = "t"};
    json_t *record = judgement_json(&judgement);
    cr_assert_not_null(record);
    cr_expect(json_is_null(json_object_get(record, "line")));
    cr_expect(json_is_null(json_object_get(record, "value")));
    cr_expect_str_eq(json_string_value(json_object_get(record, "verdict")), "INCOMPLETE");
    json_decref(record);
    judgement.line = 3;
    judgement.value = 0.25;
    record = judgement_json(&judgement);
    cr_expect_eq(json_integer_value(json_object_get(record, "line")), 3);
    cr_expect_eq(json_real_value(json_object_get(record, "value")), 0.25);
    json_decref(record);
}
