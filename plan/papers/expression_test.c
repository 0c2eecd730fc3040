// SPDX-License-Identifier: Apache-2.0
// Expressions: what binds tighter, names, and what is refused.
#include "plan/papers/expression.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

// "one" to "three" are numbers, "self" denotes the whole expression; any other path, for its length.
static int value(const struct expression_names *names, const struct expression *expression, const char *path,
                 double *out)
{
    static const char *const numbers[] = {"zero", "one", "two", "three"};
    *out = (double)strlen(path);
    for (int i = 0; i < 4; i++)
        if (strcmp(path, numbers[i]) == 0)
            *out = i;
    return strcmp(path, "self") == 0 ? expression_evaluate(expression, names, out) : ERR_NONE;
}

// Evaluates a JSON value as an expression.
static int evaluate(const char *json, double *out)
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
    double result;
    snprintf(json, sizeof json, "\"%s\"", expression);
    cr_assert_eq(evaluate(json, &result), ERR_NONE, "%s: %s", expression, err_message());
    cr_assert_eq(result, expected, "%s: %.17g", expression, result);
}

static void refused(const char *json, const char *message)
{
    double result;
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
}

Test(expression, names_are_paths)
{
    expect("one + two * three", 7);
    expect("oneself + android", 14);
    expect("a.b_2.*.c", 9);
    expect("a.* * two", 6);
}

Test(expression, errors_say_where_the_text_ends_to_make_sense)
{
    refused("\"1 +\"", "expected a number, a name or \"(\" at its end");
    refused("\"\"", "expected a number, a name or \"(\" at its end");
    refused("\"2 * -3\"", "expected a number, a name or \"(\" at \"-3\"");
    refused("\"(1 + 2\"", "expected \")\" at its end");
    refused("\"1 = 1\"", "expected an operator at \"= 1\"");
    refused("\"1 2\"", "expected an operator at \"2\"");
    refused("\"1 / (two - 2) + 1\"", "division by zero at \"+ 1\"");
    refused("[1]", "is [1], expected a number or an expression");
    refused("null", "is null, expected a number or an expression");
}

Test(expression, endless_and_deep_expressions_are_refused)
{
    char deep[1024] = "\"";
    refused("\"1 + self\"", "needs too many terms, maybe because a name denotes itself, at \"1 + self\"");
    memset(deep + 1, '(', EXPRESSION_TERM_MAX + 1);
    strcat(deep, "\"");
    double result;
    cr_assert_eq(evaluate(deep, &result), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "needs too many terms"), "%s", err_message());
}
