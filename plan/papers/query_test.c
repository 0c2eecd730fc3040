// SPDX-License-Identifier: Apache-2.0
// Queries: what names stand for, plans and their paths, equations, printed numbers, and what is refused.
#include "plan/papers/query.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

// Evaluates a query with what is given for its names, both as JSON.
static int ask(const char *given, const char *query, double *out)
{
    char text[4096];
    struct json_text parsed;
    snprintf(text, sizeof text, "{\"given\":%s,\n\"query\":\"%s\"}", given, query);
    cr_assert_eq(json_text_parse("q.json", text, strlen(text), &parsed), ERR_NONE, "%s", err_message());
    const struct strict_object root = strict_root(&parsed);
    const struct query_scope scope = {&root, NULL, NULL};
    int rc = query_number(&scope, &root, "query", out);
    json_text_close(&parsed);
    return rc;
}

static void is(const char *given, const char *query, double expected)
{
    double out = -1;
    cr_assert_eq(ask(given, query, &out), ERR_NONE, "%s: %s", query, err_message());
    cr_assert_float_eq(out, expected, 1e-9 * fabs(expected), "%s: %.17g", query, out);
}

static void refused(const char *given, const char *query, const char *message)
{
    double out;
    cr_assert_eq(ask(given, query, &out), ERR_USAGE, "%s", query);
    cr_assert_str_eq(err_message(), message);
}

Test(query, names_stand_for_numbers_and_expressions)
{
    static const char given[] = "{\"a\":2,\"b\":\"a * c\",\"c\":\"a + 1\"}";
    is(given, "a + b", 8);
    refused(given, "a + d", "q.json:2: query: names d, which is neither given nor an equation of a paper");
    refused(given, "a.d", "q.json:2: query: names a.d, but a is not given as a plan");
    refused(given, "d.a", "q.json:2: query: names d.a, but d is not given as a plan");
    refused("{\"a\":\"1 +\"}", "a", "q.json:1: given.a: expected a number, a name or \"(\" at its end");
    refused("{\"a\":[2]}", "a", "q.json:1: given.a: is [2], expected a number or an expression");
    refused("{\"a\":\"b\",\"b\":\"a\"}", "a",
            "q.json:1: given.b: needs too many terms, maybe because a name denotes itself, at \"a\"");
}

Test(query, an_inner_scope_hides_an_outer_one)
{
    static const char text[] = "{\"given\":{\"a\":1,\"b\":\"10 * a\"},\"row\":{\"given\":{\"a\":2}},\"of\":\"b + a\"}";
    struct json_text parsed;
    struct strict_object row;
    double number;
    cr_assert_eq(json_text_parse("q.json", text, sizeof text - 1, &parsed), ERR_NONE, "%s", err_message());
    const struct strict_object root = strict_root(&parsed);
    const struct query_scope outer = {&root, NULL, NULL}, inner = {&row, &outer, NULL};
    cr_assert_eq(strict_object_of(&root, "row", &row), ERR_NONE);
    cr_assert_eq(query_number(&outer, &root, "of", &number), ERR_NONE, "%s", err_message());
    cr_assert_eq(number, 11);
    cr_assert_eq(query_number(&inner, &root, "of", &number), ERR_NONE, "%s", err_message());
    cr_assert_eq(number, 22);
    json_text_close(&parsed);
}

Test(query, an_equation_takes_its_names_from_its_own_values_first)
{
    static const char given[] = "{\"hidden\":3,\"layers\":9,"
                                "\"small\":{\"equation\":\"infinity_1\",\"given\":{\"layers\":\"1 + 1\"}}}";
    is(given, "small", 216);
    is(given, "infinity_1", 972);
    double out;
    cr_assert_eq(ask("{}", "infinity_11", &out), ERR_USAGE);
    cr_assert_not_null(
        strstr(err_message(), "formula: names hidden, which is neither given nor an equation of a paper"), "%s",
        err_message());
    refused("{\"a\":{\"equation\":\"infinity_12\"}}", "a",
            "q.json:1: given.a.equation: names infinity_12, which is neither given nor an equation of a paper");
    refused("{\"a\":{\"equation\":\"infinity_1\",\"layers\":1}}", "a",
            "q.json:1: given.a.layers: unknown key, expected equation, given");
}

Test(query, a_plan_has_the_numbers_that_its_paths_name)
{
    static const char given[] = "{\"z\":{\"params\":1200000,\"preset\":\"zero2\",\"world\":4}}";
    is(given, "z.memory.device.state_bytes", 6.6e6);
    is(given, "z.memory.*.state_bytes / z.params", 5.5);
    is(given, "z.memory.device.held_bytes.gradient", 6e5);
    is(given, "z.memory.*.held_bytes.* - z.memory.*.held_bytes.staging", 6.6e6);
    is(given, "z.memory.nvme.held_bytes.*", 0);
    is(given, "z.params", 1.2e6);
    is(given, "z.world", 4);
    is(given, "z.lanes.*.moved_bytes.reduce_scatter", 1.8e6);
    is(given, "z.lanes.*.moved_bytes.all_reduce", 0);
    is("{\"z\":{\"model\":\"gpt2\",\"preset\":\"zero2\",\"world\":4}}", "z.params", 124439808);
    refused(given, "z.memory.device.state_byte",
            "q.json:1: given.z: has no whole number at 'memory.device.state_byte'; `zerogauge plan --json` shows all");
    refused(given, "z", "q.json:1: given.z: has no whole number at ''; `zerogauge plan --json` shows all");
    refused("{\"z\":{\"params\":8,\"preset\":\"zero1\",\"world\":2,\"set\":[\"zero_optimization.stage=4\"]}}",
            "z.params",
            "q.json:1: given.z: --set zero_optimization.stage=4: zero_optimization.stage: is 4, expected a whole "
            "number from 0 to 3");
}

Test(query, a_plan_takes_values_that_are_given)
{
    static const char given[] = "{\"z\":{\"params\":\"$size\",\"preset\":\"$how\",\"world\":\"$ranks\"},\"size\":16,"
                                "\"how\":\"zero3\",\"ranks\":8}";
    is(given, "z.memory.*.held_bytes.parameter", 4);
    refused("{\"z\":{\"params\":8,\"preset\":\"zero3\",\"world\":\"$ranks\"}}", "z.params",
            "q.json:1: given.z.world: is \"$ranks\", expected a whole number from 1 to 100000");
}

Test(query, set_changes_the_plan)
{
    static const char form[] = "{\"z\":{\"params\":4000,\"preset\":\"%s\",\"world\":4,\"set\":["
                               "\"gradient_accumulation_steps=%d\",\"zero_optimization.reduce_bucket_size=1000\"]}}";
    static const char query[] = "z.lanes.*.moved_bytes.reduce_scatter";
    char given[512];
    snprintf(given, sizeof given, form, "zero2", 3);
    is(given, query, 18000);
    snprintf(given, sizeof given, form, "zero1", 1);
    is(given, query, 6000);
    refused("{\"z\":{\"params\":8,\"preset\":\"zero1\",\"world\":2,\"set\":[1]}}", "z.params",
            "q.json:1: given.z.set: element 0 is not a string such as \"bf16.enabled=true\"");
}

Test(query, a_printed_number_is_found_without_its_table_being_evaluated)
{
#define CELL(TABLE, ROW, COLUMN) "{\"a\":{\"printed\":\"" TABLE "\",\"row\":\"" ROW "\",\"column\":\"" COLUMN "\"}}"
    is(CELL("offload-table-4", "8B", "PT-CPU"), "a", 11.93);
    is(CELL("zero-table-2", "MP 16", "P_os+g+p"), "a", 2e12);
    refused(CELL("offload-table-4", "3B", "PT-CPU"), "a",
            "q.json:1: given.a.row: there is no cell at row '3B' and column 'PT-CPU' of offload-table-4");
    refused(CELL("zero-table-2", "MP 16", "P_os+g+p"), "a.b",
            "q.json:2: query: names a.b, but a is not given as a plan");
    refused(CELL("table", "3B", "PT-CPU"), "a",
            "q.json:1: given.a.printed: is 'table', which is not a table of the papers; `plan --paper` lists them");
#undef CELL
}

Test(query, a_plan_needs_a_model_a_configuration_and_a_world)
{
    refused("{\"z\":{\"params\":10,\"preset\":\"zero1\"}}", "z.params", "q.json:1: given.z.world: missing");
    refused("{\"z\":{\"preset\":\"zero1\",\"world\":2}}", "z.params", "q.json:1: given.z.params: missing");
    refused("{\"z\":{\"params\":10,\"world\":2}}", "z.params", "q.json:1: given.z.preset: missing");
    refused("{\"z\":{\"params\":10,\"model\":\"gpt2\",\"preset\":\"zero1\",\"world\":2}}", "z.params",
            "q.json:1: given.z.params: unknown key, expected world, model, preset, set");
    refused("{\"z\":{\"params\":1e16,\"preset\":\"zero1\",\"world\":2}}", "z.params",
            "q.json:1: given.z.params: is 1e+16, expected 1 to 1e15 parameters");
}
