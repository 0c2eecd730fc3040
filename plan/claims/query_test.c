// SPDX-License-Identifier: Apache-2.0
// Queries: what names stand for, plans and their paths, equations, printed numbers, and what is refused.
#include "plan/claims/query.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

// Evaluates a query with what is given for its names, both as JSON.
static int ask(const char *given, const char *query, bool *holds, double *measured)
{
    char text[4096];
    struct json_text parsed;
    snprintf(text, sizeof text, "{\"given\":%s,\n\"query\":\"%s\"}", given, query);
    cr_assert_eq(json_text_parse("q.json", text, strlen(text), &parsed), ERR_NONE, "%s", err_message());
    const struct strict_object root = strict_root(&parsed);
    const struct query_scope scope = {&root, NULL, NULL};
    int rc = query_holds(&scope, &root, "query", holds, measured);
    json_text_close(&parsed);
    return rc;
}

static void holds(const char *given, const char *query, double expected)
{
    bool out = false;
    double measured = -1;
    cr_assert_eq(ask(given, query, &out, &measured), ERR_NONE, "%s: %s", query, err_message());
    cr_assert(out, "%s: %.17g", query, measured);
    if (!isnan(expected))
        cr_assert_float_eq(measured, expected, 1e-9 * fabs(expected), "%s: %.17g", query, measured);
    else
        cr_assert(isnan(measured));
}

static void fails(const char *given, const char *query)
{
    bool out = true;
    double measured;
    cr_assert_eq(ask(given, query, &out, &measured), ERR_NONE, "%s: %s", query, err_message());
    cr_assert_not(out, "%s", query);
}

static void refused(const char *given, const char *query, const char *message)
{
    bool out;
    double measured;
    cr_assert_eq(ask(given, query, &out, &measured), ERR_USAGE, "%s", query);
    cr_assert_str_eq(err_message(), message);
}

Test(query, names_stand_for_numbers_and_expressions)
{
    static const char given[] = "{\"a\":2,\"b\":\"a * c\",\"c\":\"a + 1\"}";
    holds(given, "a + b == 8", 8);
    fails(given, "b < 6");
    holds(given, "b == 6 and c == 3", NAN);
    refused(given, "a + d == 1", "q.json:2: query: names d, which is neither given nor an equation of a paper");
    refused(given, "a.d == 1", "q.json:2: query: names a.d, but a is not given as a plan");
    refused(given, "d.a == 1", "q.json:2: query: names d.a, but d is not given as a plan");
    refused(given, "a + 1", "q.json:2: query: is 3, expected a comparison: <, <=, >, >=, == or about");
    refused("{\"a\":\"1 +\"}", "a == 1", "q.json:1: given.a: expected a number, a name or \"(\" at its end");
    refused("{\"a\":[2]}", "a == 1", "q.json:1: given.a: is [2], expected a number or an expression");
    refused("{\"a\":\"b\",\"b\":\"a\"}", "a == 1",
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

Test(query, an_infinite_number_compares_but_is_not_reported)
{
    static const char text[] = "{\"of\":\"fp16(65520)\"}";
    struct json_text parsed;
    double number;
    holds("{}", "fp16(65520) > 65504", NAN);
    cr_assert_eq(json_text_parse("q.json", text, sizeof text - 1, &parsed), ERR_NONE, "%s", err_message());
    const struct strict_object root = strict_root(&parsed);
    cr_assert_eq(query_number(NULL, &root, "of", &number), ERR_USAGE);
    cr_assert_str_eq(err_message(), "q.json:1: of: has no finite value");
    json_text_close(&parsed);
}

Test(query, an_equation_takes_its_names_from_its_own_values_first)
{
    static const char given[] = "{\"hidden\":3,\"layers\":9,"
                                "\"small\":{\"equation\":\"infinity_1\",\"given\":{\"layers\":\"1 + 1\"}}}";
    holds(given, "small == 216", 216);
    holds(given, "infinity_1 == 972", 972);
    bool out;
    double measured;
    cr_assert_eq(ask("{}", "infinity_11 == 1", &out, &measured), ERR_USAGE);
    cr_assert_not_null(
        strstr(err_message(), "formula: names hidden, which is neither given nor an equation of a paper"), "%s",
        err_message());
    refused("{\"a\":{\"equation\":\"infinity_12\"}}", "a == 1",
            "q.json:1: given.a.equation: names infinity_12, which is neither given nor an equation of a paper");
    refused("{\"a\":{\"equation\":\"infinity_1\",\"layers\":1}}", "a == 1",
            "q.json:1: given.a.layers: unknown key, expected equation, given");
}

Test(query, a_plan_has_the_numbers_that_its_paths_name)
{
    static const char given[] = "{\"z\":{\"params\":1200000,\"layers\":3,\"preset\":\"zero2\",\"world\":4}}";
    holds(given, "z.memory.device.state_bytes == 6600000", 6.6e6);
    holds(given, "z.memory.*.state_bytes / z.params == 5.5", 5.5);
    holds(given, "z.memory.device.held_bytes.gradient == 6e5", 6e5);
    holds(given, "z.memory.*.held_bytes.* == z.memory.*.state_bytes + z.memory.*.held_bytes.staging", 11.4e6);
    holds(given, "z.memory.nvme.held_bytes.* == 0", 0);
    holds(given, "z.params == 1200000", 1.2e6);
    holds(given, "z.world == 4", 4);
    holds(given, "z.lanes.*.moved_bytes.reduce_scatter == 1.8e6", 1.8e6);
    holds(given, "z.lanes.*.moved_bytes.all_reduce == 0", 0);
    holds(given, "z.config.zero_optimization.reduce_bucket_size == 2 ^ 30", 1073741824);
    holds("{\"z\":{\"model\":\"gpt2\",\"preset\":\"zero2\",\"world\":4}}",
          "z.config.zero_optimization.reduce_bucket_size < 2 ^ 30", 50000);
    holds(given, "z.config.optimizer.params.lr < 1", 0.001);
    refused(given, "z.memory.device.state_byte == 1",
            "q.json:1: given.z: has no number at 'memory.device.state_byte'; `zerogauge plan --json` shows all, of "
            "which a plan without a machine has no times");
    refused(given, "z == 1",
            "q.json:1: given.z: has no number at ''; `zerogauge plan --json` shows all, of which a plan without a "
            "machine has no times");
}

Test(query, layers_that_do_not_divide_have_all_parameters)
{
    holds("{\"z\":{\"params\":11,\"layers\":3,\"preset\":\"zero0\",\"world\":1}}",
          "z.memory.*.held_bytes.parameter == 22", 22);
}

Test(query, a_plan_takes_values_that_are_given)
{
    static const char given[] = "{\"z\":{\"params\":\"$size\",\"preset\":\"$how\",\"world\":\"$ranks\"},\"size\":16,"
                                "\"how\":\"zero3\",\"ranks\":8}";
    holds(given, "z.memory.*.held_bytes.parameter == 4", 4);
    refused("{\"z\":{\"params\":8,\"preset\":\"zero3\",\"world\":\"$ranks\"}}", "z.params == 8",
            "q.json:1: given.z.world: is \"$ranks\", expected a whole number from 1 to 100000");
}

Test(query, a_machine_gives_time_and_overlap)
{
#define STEP(MACHINE) "{\"z\":{\"model\":\"gpt2\",\"preset\":\"zero2_offload\",\"world\":2" MACHINE "}}"
    static const char h100[] = STEP(",\"machine\":\"dgx-h100\"");
    bool out;
    double step_s = 0;
    cr_assert_eq(ask(h100, "z.step_s < 9", &out, &step_s), ERR_NONE, "%s", err_message());
    cr_assert(out && step_s > 0, "%g", step_s);
    holds(h100, "z.overlap.backward.compute == 1", 1);
    refused(STEP(""), "z.step_s < 9",
            "q.json:1: given.z: has no number at 'step_s'; `zerogauge plan --json` shows all, of which a plan without "
            "a machine has no times");
    refused(h100, "z.overlap.sleep.compute == 1",
            "q.json:1: given.z: no operation or lane 'sleep' takes time in this plan");
#undef STEP
}

Test(query, a_delayed_update_runs_beside_the_next_step)
{
    static const char form[] =
        "{\"z\":{\"model\":\"gpt2-xl\",\"preset\":\"zero2_offload\",\"world\":1,\"machine\":\"dgx-h100\",\"set\":["
        "\"train_micro_batch_size_per_gpu=64\"%s]}}";
    static const char *const paths[] = {"z.overlap.Adam.forward >= 0", "z.step_s >= 0"};
    char given[1024];
    double measured[4];
    bool out;
    for (int i = 0; i < 4; i++) {
        snprintf(given, sizeof given, form, i % 2 ? ",\"zerogauge.delayed_update.start_step=1\"" : "");
        cr_assert_eq(ask(given, paths[i / 2], &out, &measured[i]), ERR_NONE, "%s: %s", given, err_message());
    }
    // Buckets that are updated let the next forward begin: all of the update beside it but the first one's.
    cr_assert_lt(measured[0], measured[1]);
    cr_assert_gt(measured[1], 0.5);
    cr_assert_lt(measured[3], measured[2]);
}

Test(query, set_changes_the_plan)
{
    static const char form[] = "{\"z\":{\"params\":4000,\"preset\":\"%s\",\"world\":4,\"set\":["
                               "\"gradient_accumulation_steps=%d\",\"zero_optimization.reduce_bucket_size=1000\"]}}";
    static const char query[] = "z.lanes.*.moved_bytes.reduce_scatter > 0";
    char given[512];
    snprintf(given, sizeof given, form, "zero2", 3);
    holds(given, query, 18000);
    snprintf(given, sizeof given, form, "zero1", 1);
    holds(given, query, 6000);
    refused("{\"z\":{\"params\":8,\"preset\":\"zero1\",\"world\":2,\"set\":[1]}}", "z.params == 8",
            "q.json:1: given.z.set: element 0 is not a string such as \"bf16.enabled=true\"");
}

Test(query, a_configuration_is_accepted_or_refused)
{
#define NVME "\"set\":[\"zero_optimization.offload_optimizer.device=nvme\"]"
    holds("{\"z\":{\"preset\":\"zero3_offload\",\"world\":2," NVME "}}", "z.accepted", NAN);
    fails("{\"z\":{\"preset\":\"zero2_offload\",\"world\":2," NVME "}}", "z.accepted");
    holds("{\"z\":{\"config\":\"{\\\"zero_optimization\\\": {\\\"stage\\\": 4}}\",\"world\":2}}", "z.accepted == 0", 0);
    refused("{\"z\":{\"config\":\"{\\\"zero_optimization\\\": {\\\"stage\\\": 4}}\",\"params\":8,\"world\":2}}",
            "z.params == 8",
            "q.json:1: given.z: config:1: zero_optimization.stage: is 4, expected a whole number from 0 to 3");
    refused("{\"z\":{\"preset\":\"zero9\",\"world\":2}}", "z.accepted",
            "q.json:1: given.z.preset: is \"zero9\", expected one of \"zero0\", \"zero1\", \"zero2\", "
            "\"zero2_offload\", \"zero3\", \"zero3_offload\", \"zero_infinity\"");
    refused("{\"z\":{\"preset\":\"zero3\",\"world\":0}}", "z.accepted",
            "q.json:1: given.z.world: is 0, expected a whole number from 1 to 100000");
#undef NVME
}

Test(query, a_printed_number_is_found_without_its_table_being_evaluated)
{
#define CELL(TABLE, ROW, COLUMN) "{\"a\":{\"printed\":\"" TABLE "\",\"row\":\"" ROW "\",\"column\":\"" COLUMN "\"}}"
    holds(CELL("offload-table-4", "8B", "PT-CPU"), "a == 11.93", 11.93);
    holds(CELL("zero-table-2", "MP 16", "P_os+g+p"), "a == 2e12", 2e12);
    refused(CELL("offload-table-4", "3B", "PT-CPU"), "a == 1",
            "q.json:1: given.a.row: there is no cell at row '3B' and column 'PT-CPU' of offload-table-4");
    refused(CELL("zero-table-2", "MP 16", "P_os+g+p"), "a.b == 2e12",
            "q.json:2: query: names a.b, but a is not given as a plan");
    refused(CELL("table", "3B", "PT-CPU"), "a == 1",
            "q.json:1: given.a.printed: is 'table', which is not a table of the papers; `plan --paper` lists them");
#undef CELL
}

Test(query, a_title_is_that_of_the_papers_own_source)
{
#define CITED(TITLE, NUMBER) "{\"a\":{\"title\":\"" TITLE "\",\"arxiv\":\"" NUMBER "\"}}"
    static const char zero[] = CITED("ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", "%s");
    char given[256];
    snprintf(given, sizeof given, zero, "1910.02054");
    holds(given, "a == 1", 1);
    snprintf(given, sizeof given, zero, "1909.08053");
    fails(given, "a == 1");
    fails(CITED("ZeRO: Memory Optimizations", "1910.02054"), "a == 1");
    refused(CITED("ZeRO", "1234.56789"), "a == 1",
            "q.json:1: given.a.arxiv: is '1234.56789', which no paper of datasets/papers has");
    refused(CITED("ZeRO", "1910.02054"), "a.b == 1", "q.json:2: query: names a.b, but a is not given as a plan");
#undef CITED
}

Test(query, adapters_and_sequences_change_a_model)
{
#define MODEL "{\"z\":{\"model\":\"gpt:layers=2,width=8,heads=2\",\"preset\":\"zero2\",\"world\":2"
    double base, adapted;
    bool out;
    cr_assert_eq(ask(MODEL "}}", "z.params > 0", &out, &base), ERR_NONE, "%s", err_message());
    cr_assert_eq(ask(MODEL ",\"lora\":2}}", "z.params > 0", &out, &adapted), ERR_NONE, "%s", err_message());
    cr_expect_eq(adapted - base, 2 * 2 * ((8 + 24) + (8 + 8) + (8 + 32) + (32 + 8)), "%g, %g", base, adapted);
    refused(MODEL ",\"sequence_length\":64}}", "z.params > 0",
            "q.json:1: given.z.model: the model gpt:layers=2,width=8,heads=2 has its own sequence length");
#undef MODEL
#define LLAMA(LENGTH)                                                                                                  \
    "{\"z\":{\"model\":\"llama-8b\",\"sequence_length\":" LENGTH                                                       \
    ",\"preset\":\"zero2\",\"world\":2,\"machine\":\"dgx-h100\"}}"
    // Logits in fp32 and their gradient.
    holds(LLAMA("512"), "z.gpu.device.held_bytes.logits == 8 * 512 * 128256", 8.0 * 512 * 128256);
    holds(LLAMA("1024"), "z.gpu.device.held_bytes.logits == 8 * 1024 * 128256", 8.0 * 1024 * 128256);
#undef LLAMA
}

Test(query, a_plan_needs_a_model_a_configuration_and_a_world)
{
    refused("{\"z\":{\"params\":10,\"preset\":\"zero1\"}}", "z.params == 10", "q.json:1: given.z.world: missing");
    refused("{\"z\":{\"preset\":\"zero1\",\"world\":2}}", "z.params == 10",
            "q.json:1: given.z.params: is missing, expected a number");
    refused("{\"z\":{\"params\":10,\"world\":2}}", "z.params == 10", "q.json:1: given.z.preset: missing");
    refused(
        "{\"z\":{\"params\":10,\"model\":\"gpt2\",\"preset\":\"zero1\",\"world\":2}}", "z.params == 10",
        "q.json:1: given.z.params: unknown key, expected world, model, preset, set, machine, lora, sequence_length");
    refused("{\"z\":{\"params\":1e16,\"preset\":\"zero1\",\"world\":2}}", "z.params == 10",
            "q.json:1: given.z.params: is 1e+16, expected 1 to 1e15 parameters");
}
