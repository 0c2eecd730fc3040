// SPDX-License-Identifier: Apache-2.0
// Expressions: what binds tighter, comparisons, formats, names, and what is refused.
#include "plan/claims/expression.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

// "one" to "three" are numbers, "self" denotes the whole expression; any other path, for its length.
static int value(const struct expression_names *names, const struct expression *expression, const char *path,
                 double *out)
{
    static const char *const numbers[] = {"zero", "one", "two", "three"};
    struct expression_result result = {.value = (double)strlen(path)};
    for (int i = 0; i < 4; i++)
        if (strcmp(path, numbers[i]) == 0)
            result.value = i;
    if (strcmp(path, "self") == 0)
        TRY(expression_evaluate(expression, names, &result));
    *out = result.value;
    return ERR_NONE;
}

// Evaluates a JSON value as an expression.
static int evaluate(const char *json, struct expression_result *out)
{
    char text[2048];
    struct json_text parsed;
    int term_count = 0;
    const struct expression_names names = {value, NULL, &term_count};
    snprintf(text, sizeof text, "{\n\"f\":%s}", json);
    cr_assert_eq(json_text_parse("f.json", text, strlen(text), &parsed), ERR_NONE, "%s", err_message());
    const struct strict_object root = strict_root(&parsed);
    int rc = expression_evaluate(&(struct expression){&root, "f"}, &names, out);
    json_text_close(&parsed);
    return rc;
}

static void expect(const char *expression, double expected)
{
    char json[1024];
    struct expression_result result;
    snprintf(json, sizeof json, "\"%s\"", expression);
    cr_assert_eq(evaluate(json, &result), ERR_NONE, "%s: %s", expression, err_message());
    cr_assert_eq(result.value, expected, "%s: %.17g", expression, result.value);
}

static void refused(const char *json, const char *message)
{
    struct expression_result result;
    char expected[256];
    snprintf(expected, sizeof expected, "f.json:2: f: %s", message);
    cr_assert_eq(evaluate(json, &result), ERR_USAGE, "%s", json);
    cr_assert_str_eq(err_message(), expected);
}

Test(expression, tighter_operators_go_first_and_equal_ones_from_the_left)
{
    expect("1 + 2 * 3", 7);
    expect("(1 + 2) * 3", 9);
    expect("10 - 4 - 3", 3);
    expect("10 - 2 * 3 + 1", 5);
    expect("64 / 4 / 2", 8);
    expect("64 / (4 / 2)", 32);
    expect("2 * 3 ^ 2", 18);
    expect("2 ^ 3 ^ 2", 64);
    expect(" 1.5e3+0.5 ", 1500.5);
    expect("1 < 2 + 3", 1);
    expect("2 + (1 < 2)", 3);
    expect("1 > 2 and 1 > 2 or 1 < 2", 1);
    expect("1 < 2 or 1 > 2 and 1 > 2", 1);
}

Test(expression, each_comparison_works)
{
    static const char *const words[] = {"<", "<=", ">", ">=", "==", "about"};
    static const int expected[3][6] = {{1, 1, 0, 0, 0, 0}, {0, 1, 0, 1, 1, 1}, {0, 0, 1, 1, 0, 0}};
    for (int i = 0; i < 3; i++) {
        for (int word = 0; word < 6; word++) {
            char expression[64];
            snprintf(expression, sizeof expression, "%d %s 8", 7 + i, words[word]);
            expect(expression, expected[i][word]);
        }
    }
}

Test(expression, about_is_within_a_twentieth_unless_given)
{
    expect("104.9 about 100", 1);
    expect("105.1 about 100", 0);
    expect("95.1 about 100", 1);
    expect("104.9 about 100 within 0.01", 0);
    expect("104.9 about 100 within 0.025 * 2", 1);
    expect("0 - 99.5 about 0 - 100 within 0.01", 1);
}

Test(expression, and_or_or_join_comparisons_and_both_sides_are_evaluated)
{
    static const int expected[2][2][2] = {{{0, 0}, {0, 1}}, {{0, 1}, {1, 1}}};
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++) {
            for (int or = 0; or < 2; or ++) {
                char expression[64];
                snprintf(expression, sizeof expression, "%d == 1 %s %d == 1", a, or ? "or" : "and", b);
                expect(expression, expected[a][b][or]);
            }
        }
    }
    refused("\"1 == 1 or 1 / 0 == 1\"", "division by zero at \"== 1\"");
}

Test(expression, formats_round_as_the_stages_do)
{
    expect("bf16(257)", 256);
    expect("fp16(257)", 257);
    expect("fp16(65519)", 65504);
    expect("fp32(2 ^ 24 + 1)", 16777216);
    expect("fp16(65520)", INFINITY);
    expect("fp16 (65520) > 65504", 1);
}

Test(expression, names_are_paths_and_words_end_where_names_do)
{
    expect("one + two * three", 7);
    expect("oneself + android", 14);
    expect("a.b_2.*.c", 9);
    expect("a.* * two", 6);
    expect("bf16_of + 0", 7);
}

Test(expression, the_left_side_of_each_comparison_in_the_text_is_reported)
{
    struct expression_result result;
    cr_assert_eq(evaluate("\"3 * 2 < 1\"", &result), ERR_NONE);
    cr_assert_eq(result.compared, 6);
    cr_assert_eq(result.comparison_count, 1);
    cr_assert_eq(evaluate("\"3 < 1 or 4 < 5\"", &result), ERR_NONE);
    cr_assert_eq(result.compared, 4);
    cr_assert_eq(result.comparison_count, 2);
    cr_assert_eq(evaluate("\"3 * 2\"", &result), ERR_NONE);
    cr_assert(isnan(result.compared));
    cr_assert_eq(result.comparison_count, 0);
    cr_assert_eq(evaluate("2.5", &result), ERR_NONE);
    cr_assert_eq(result.value, 2.5);
}

Test(expression, errors_say_where_the_text_ends_to_make_sense)
{
    refused("\"1 +\"", "expected a number, a name or \"(\" at its end");
    refused("\"\"", "expected a number, a name or \"(\" at its end");
    refused("\"2 * -3\"", "expected a number, a name or \"(\" at \"-3\"");
    refused("\"(1 + 2\"", "expected \")\" at its end");
    refused("\"bf16 2\"", "expected \"(\" at \"2\"");
    refused("\"1 = 1\"", "expected an operator at \"= 1\"");
    refused("\"1 2\"", "expected an operator at \"2\"");
    refused("\"1 / (two - 2) + 1\"", "division by zero at \"+ 1\"");
    refused("\"1 about 1 within 1 - 2\"", "\"within\" is negative at its end");
    refused("[1]", "is [1], expected a number or an expression");
    refused("null", "is null, expected a number or an expression");
}

Test(expression, endless_and_deep_expressions_are_refused)
{
    char deep[1024] = "\"";
    refused("\"1 + self\"", "needs too many terms, maybe because a name denotes itself, at \"1 + self\"");
    memset(deep + 1, '(', EXPRESSION_TERM_MAX + 1);
    strcat(deep, "\"");
    struct expression_result result;
    cr_assert_eq(evaluate(deep, &result), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "needs too many terms"), "%s", err_message());
}
