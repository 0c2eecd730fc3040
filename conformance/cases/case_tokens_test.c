// SPDX-License-Identifier: Apache-2.0
// Counts of tokens: what is written is read, what makes no sense is refused, and who counts.
#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"
#include "conformance/suite/suite_build.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Two tensor ranks of each of two data ranks, two micro-steps, and one in the last step.
static struct check_case tokens_case(void)
{
    struct check_case c;
    suite_begin(&c, 4, 1, DTYPE_FP32, 1);
    snprintf(c.name, sizeof c.name, "tokens");
    suite_tensor(&c, 4, 0);
    c.mesh = (struct mesh){1, 2, 2, 1, 1};
    c.steps = 3;
    c.accumulation = 2;
    c.has_tokens = true;
    for (int slot = 0; slot < 12; slot++)
        case_set_tokens(&c, 1 + slot / 4, slot / 2 % 2, slot % 2, (uint32_t)slot);
    c.micro_steps[2] = 1;
    suite_fit(&c, 2);
    return c;
}

static char *text_of(const struct check_case *c)
{
    char *text;
    size_t bytes;
    cr_assert_eq(case_text(c, &text, &bytes), ERR_NONE);
    return text;
}

Test(case_tokens, ranks_with_the_same_data_have_the_same_counts)
{
    struct check_case c = tokens_case(), again;
    char *text = text_of(&c);
    const char *expected = " \"tokens\": [\n"
                           "  [[0, 0, 1, 1], [2, 2, 3, 3]],\n"
                           "  [[4, 4, 5, 5], [6, 6, 7, 7]],\n"
                           "  [[8, 8, 9, 9]]\n"
                           " ],\n";
    cr_assert_not_null(strstr(text, expected), "%s", text);
    cr_assert_eq(case_parse("text", text, strlen(text), &again), ERR_NONE, "%s", err_message());
    for (int step = 1; step <= 3; step++) {
        cr_assert_eq(case_all_tokens(&again, step), case_all_tokens(&c, step));
        cr_assert_eq(case_micro_steps(&again, step), step == 3 ? 1 : 2);
    }
    cr_assert_eq(case_all_tokens(&again, 1), 6);
    cr_assert_eq(case_all_tokens(&again, 2), 22);
    cr_assert_eq(case_all_tokens(&again, 3), 17, "the second micro-step of the last step is none");
    cr_assert_eq(case_options(&again), 1u << OPTION_TENSOR | 1u << OPTION_TOKEN_MEAN);
    free(text);
}

// Four ranks share two micro-batches: each counts its part, and all parts once.
Test(case_tokens, ranks_that_share_a_micro_batch_count_their_parts)
{
    struct check_case c = tokens_case(), again;
    c.mesh = (struct mesh){1, 4, 1, 1, 1};
    c.sequence = 2;
    char *text = text_of(&c);
    const char *expected = " \"tokens\": [\n"
                           "  [[0, 0, 1, 0], [2, 0, 3, 0]],\n"
                           "  [[3, 1, 4, 1], [5, 1, 6, 1]],\n"
                           "  [[6, 2, 7, 2]]\n"
                           " ],\n";
    cr_assert_not_null(strstr(text, expected), "%s", text);
    cr_assert_eq(case_parse("text", text, strlen(text), &again), ERR_NONE, "%s", err_message());
    cr_assert_eq(case_tokens(&again, 2, 1, 1), 7);
    cr_assert_eq(case_all_tokens(&again, 2), 22);
    cr_assert_eq(case_all_tokens(&again, 3), 17);
    cr_assert_eq(case_options(&again), 1u << OPTION_SEQUENCE | 1u << OPTION_TOKEN_MEAN);
    free(text);
}

Test(case_tokens, the_logical_case_has_the_same_counts)
{
    struct check_case c = tokens_case(), logical;
    case_logical(&c, &logical);
    cr_assert_eq(logical.world, 2);
    for (int slot = 0; slot < 10; slot++)
        cr_assert_eq(case_tokens(&logical, 1 + slot / 4, slot / 2 % 2, slot % 2), (uint32_t)slot);
}

Test(case_tokens, a_step_without_tokens_is_divided_by_one)
{
    struct check_case c = tokens_case();
    for (int slot = 0; slot < 4; slot++)
        case_set_tokens(&c, 2, slot / 2, slot % 2, 0);
    cr_assert_eq(case_mean_count(&c, 1), 6);
    cr_assert_eq(case_mean_count(&c, 2), 1);
    c.has_tokens = false;
    cr_assert_eq(case_mean_count(&c, 2), 4, "ranks x micro-steps");
}

// Nobody uses a parameter in a micro-step that the step does not have; a rank without tokens has gradients of zero.
Test(case_tokens, who_has_no_tokens_has_no_gradient)
{
    struct check_case c = tokens_case();
    struct case_values *values;
    float sum = 0;
    cr_assert_eq(case_values_open(&c, &values), ERR_NONE, "%s", err_message());
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(case_gradient(values, 1, 0, 0, 0)[i], 0, "a count of 0");
        cr_expect_eq(case_gradient(values, 3, 1, 1, 0)[i], 0, "no micro-step");
        sum += fabsf(case_gradient(values, 1, 0, 1, 0)[i]);
    }
    cr_expect_gt(sum, 0);
    cr_expect(case_is_used_in(&c, 0, 3, 0) && !case_is_used_in(&c, 0, 3, 1) && !case_use_varies(&c, 0));
    case_values_close(values);
}

static void expect_refused(const char *from, const char *to, const char *why)
{
    struct check_case c = tokens_case(), again;
    char *text = text_of(&c), *changed = NULL;
    const char *at = strstr(text, from);
    cr_assert_not_null(at, "%s", from);
    cr_assert_geq(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)), 0);
    cr_expect_eq(case_parse("text", changed, strlen(changed), &again), ERR_USAGE, "%s", to);
    cr_expect_not_null(strstr(err_message(), why), "%s: %s", to, err_message());
    free(changed);
    free(text);
}

Test(case_tokens, counts_that_make_no_sense_are_refused)
{
    expect_refused("[[8, 8, 9, 9]]", "[[8, 7, 9, 9]]",
                   "step 3, micro-step 0, rank 1 differ from those of a rank with the same data");
    expect_refused("[[8, 8, 9, 9]]", "[[8, 8, 9]]", "step 3, micro-step 0 is no list of 4 ranks' counts");
    expect_refused("[[8, 8, 9, 9]]", "[[8, 8, -9, -9]]", "rank 2 is not a whole number up to 1073741824");
    expect_refused("[[8, 8, 9, 9]]", "[[8, 8, 1.5, 1.5]]", "rank 2 is not a whole number");
    expect_refused("[[8, 8, 9, 9]]", "[]", "step 3 is no list of 1 to 2 micro-steps");
    expect_refused("[[8, 8, 9, 9]]", "[[8, 8, 9, 9], [0, 0, 0, 0], [0, 0, 0, 0]]", "is no list of 1 to 2");
    expect_refused(",\n  [[8, 8, 9, 9]]", "", "3");
}

Test(case_tokens, more_counts_than_a_case_holds_are_refused)
{
    struct check_case c = tokens_case();
    cr_assert(case_has_room_for_tokens(&c));
    c.steps = CASE_STEP_MAX;
    c.accumulation = 4;
    cr_assert(case_has_room_for_tokens(&c), "512");
    c.accumulation = 5;
    cr_assert_not(case_has_room_for_tokens(&c));
}
