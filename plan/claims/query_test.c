// SPDX-License-Identifier: Apache-2.0
// Queries: arithmetic, comparisons, plans, and what is refused.
#include "plan/claims/query.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static int ask(const char *query, bool *holds, double *measured)
{
    char text[4096];
    struct json_text parsed;
    snprintf(text, sizeof text, "{\"query\":%s}", query);
    int rc = json_text_parse("q.json", text, strlen(text), &parsed);
    cr_assert_eq(rc, ERR_NONE, "%s", err_message());
    const struct strict_object root = strict_root(&parsed);
    rc = query_holds(&root, "query", holds, measured);
    json_text_close(&parsed);
    return rc;
}

static void holds(const char *query, double expected)
{
    bool out = false;
    double measured = -1;
    cr_assert_eq(ask(query, &out, &measured), ERR_NONE, "%s: %s", query, err_message());
    cr_assert(out, "%s: %.17g", query, measured);
    if (!isnan(expected))
        cr_assert_float_eq(measured, expected, 1e-9 * fabs(expected), "%s: %.17g", query, measured);
    else
        cr_assert(isnan(measured));
}

static void fails(const char *query)
{
    bool out = true;
    double measured;
    cr_assert_eq(ask(query, &out, &measured), ERR_NONE, "%s: %s", query, err_message());
    cr_assert_not(out, "%s", query);
}

static void refused(const char *query, const char *message)
{
    bool out;
    double measured;
    cr_assert_eq(ask(query, &out, &measured), ERR_USAGE, "%s", query);
    cr_assert_str_eq(err_message(), message);
}

Test(query, arithmetic_nests)
{
    holds("{\"sum\":[1,{\"product\":[2,3]},{\"quotient\":[1,4]}],\"compare\":\"==\",\"value\":7.25}", 7.25);
    holds("{\"difference\":[5,{\"smallest\":[9,2,4]}],\"compare\":\"==\",\"value\":{\"sum\":[3]}}", 3);
    holds("{\"equation\":\"infinity-1\",\"layers\":{\"sum\":[1,1]},\"hidden\":3,\"compare\":\"==\",\"value\":216}",
          216);
}

Test(query, each_comparison_works)
{
    static const char *const words[] = {"<", "<=", ">", ">=", "==", "about"};
    static const int expected[3][6] = {{1, 1, 0, 0, 0, 0}, {0, 1, 0, 1, 1, 1}, {0, 0, 1, 1, 0, 0}};
    for (int value = 0; value < 3; value++) {
        for (int word = 0; word < 6; word++) {
            char query[128];
            bool out;
            double measured;
            snprintf(query, sizeof query, "{\"sum\":[%d],\"compare\":\"%s\",\"value\":8}", 7 + value, words[word]);
            cr_assert_eq(ask(query, &out, &measured), ERR_NONE, "%s", err_message());
            cr_assert_eq(out, expected[value][word], "%s", query);
        }
    }
}

Test(query, about_is_within_a_twentieth_unless_given)
{
    holds("{\"sum\":[104.9],\"compare\":\"about\",\"value\":100}", 104.9);
    fails("{\"sum\":[105.1],\"compare\":\"about\",\"value\":100}");
    fails("{\"sum\":[104.9],\"compare\":\"about\",\"value\":100,\"within\":0.01}");
    holds("{\"sum\":[-99.5],\"compare\":\"about\",\"value\":-100,\"within\":0.01}", -99.5);
}

Test(query, all_and_any_join_queries)
{
    static const char yes[] = "{\"sum\":[1],\"compare\":\"==\",\"value\":1}";
    static const char no[] = "{\"sum\":[1],\"compare\":\"==\",\"value\":2}";
    static const int expected[2][2][2] = {{{0, 0}, {0, 1}}, {{0, 1}, {1, 1}}};
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++) {
            for (int any = 0; any < 2; any++) {
                char query[512];
                bool out;
                double measured;
                snprintf(query, sizeof query, "{\"%s\":[%s,%s]}", any ? "any" : "all", a ? yes : no, b ? yes : no);
                cr_assert_eq(ask(query, &out, &measured), ERR_NONE, "%s", err_message());
                cr_assert_eq(out, expected[a][b][any], "%s", query);
                cr_assert(isnan(measured));
            }
        }
    }
}

Test(query, formats_round_as_the_stages_do)
{
    holds("{\"rounded\":257,\"to\":\"bf16\",\"compare\":\"==\",\"value\":256}", 256);
    holds("{\"rounded\":257,\"to\":\"fp16\",\"compare\":\"==\",\"value\":257}", 257);
    holds("{\"rounded\":65519,\"to\":\"fp16\",\"compare\":\"==\",\"value\":65504}", 65504);
    holds("{\"rounded\":16777217,\"to\":\"fp32\",\"compare\":\"==\",\"value\":16777216}", 16777216);
    holds("{\"overflows\":65520,\"to\":\"fp16\"}", NAN);
    fails("{\"overflows\":65519,\"to\":\"fp16\"}");
    refused("{\"rounded\":65520,\"to\":\"fp16\",\"compare\":\"==\",\"value\":0}",
            "q.json:1: query: has no finite value");
}

Test(query, a_plan_gives_the_bytes_that_a_rank_holds)
{
#define PLAN(REST) "{\"plan\":{\"params\":1200000,\"layers\":3,\"preset\":\"zero2\",\"world\":4}," REST "}"
    holds(PLAN("\"quantity\":\"held_bytes\",\"kind\":\"states\",\"compare\":\"==\",\"value\":6600000"), 6.6e6);
    holds(PLAN("\"quantity\":\"held_bytes\",\"kind\":\"states\",\"per\":\"param\",\"compare\":\"==\",\"value\":5.5"),
          5.5);
    holds(PLAN("\"quantity\":\"held_bytes\",\"kind\":\"gradient\",\"tier\":\"device\",\"compare\":\"==\","
               "\"value\":6e5"),
          6e5);
    holds(PLAN("\"quantity\":\"held_bytes\",\"tier\":\"nvme\",\"compare\":\"==\",\"value\":0"), 0);
    holds(PLAN("\"quantity\":\"params\",\"compare\":\"==\",\"value\":1200000"), 1.2e6);
    holds(PLAN("\"quantity\":\"moved_bytes\",\"operation\":\"reduce_scatter\",\"compare\":\"==\","
               "\"value\":1.8e6"),
          1.8e6);
    holds(PLAN("\"quantity\":\"moved_bytes\",\"operation\":\"all_reduce\",\"compare\":\"==\",\"value\":0"), 0);
#undef PLAN
}

Test(query, layers_that_do_not_divide_have_all_parameters)
{
    holds("{\"plan\":{\"params\":11,\"layers\":3,\"preset\":\"zero0\",\"world\":1},\"quantity\":\"held_bytes\","
          "\"kind\":\"parameter\",\"compare\":\"==\",\"value\":22}",
          22);
}

Test(query, a_machine_gives_time_and_overlap)
{
#define STEP(MACHINE, REST)                                                                                            \
    "{\"plan\":{\"model\":\"gpt2\",\"preset\":\"zero2_offload\",\"world\":2" MACHINE "}," REST "}"
    static const char h100[] =
        STEP(",\"machine\":\"dgx-h100\"", "\"quantity\":\"step_s\",\"compare\":\"<\",\"value\":9");
    bool out;
    double step_s = 0;
    cr_assert_eq(ask(h100, &out, &step_s), ERR_NONE, "%s", err_message());
    cr_assert(out && step_s > 0, "%g", step_s);
    holds(STEP(",\"machine\":\"dgx-h100\"", "\"quantity\":\"overlap\",\"of\":\"backward\",\"beside\":\"compute\","
                                            "\"compare\":\"==\",\"value\":1"),
          1);
    refused(STEP("", "\"quantity\":\"step_s\",\"compare\":\"<\",\"value\":9"),
            "q.json:1: query.plan.machine: missing: without a machine operations take no time");
    refused(STEP(",\"machine\":\"dgx-h100\"", "\"quantity\":\"overlap\",\"of\":\"sleep\",\"beside\":\"compute\","
                                              "\"compare\":\"==\",\"value\":1"),
            "q.json:1: query.quantity: no operation or lane 'sleep' takes time in this plan");
#undef STEP
}

Test(query, a_delayed_update_runs_beside_the_next_step)
{
    static const char form[] =
        "{\"plan\":{\"model\":\"gpt2-xl\",\"preset\":\"zero2_offload\",\"world\":1,\"machine\":\"dgx-h100\",\"set\":["
        "\"train_micro_batch_size_per_gpu=64\"%s]},\"quantity\":%s,\"compare\":\">=\",\"value\":0}";
    static const char late[] = ",\"zerogauge.delayed_update.start_step=1\"";
    static const char beside[] = "\"overlap\",\"of\":\"Adam\",\"beside\":\"forward\"";
    char query[1024];
    double measured[4];
    bool out;
    for (int i = 0; i < 4; i++) {
        snprintf(query, sizeof query, form, i % 2 ? late : "", i < 2 ? beside : "\"step_s\"");
        cr_assert_eq(ask(query, &out, &measured[i]), ERR_NONE, "%s: %s", query, err_message());
    }
    cr_assert_eq(measured[0], 0);
    cr_assert_gt(measured[1], 0.5);
    cr_assert_lt(measured[3], measured[2]);
}

Test(query, set_and_accumulation_change_the_plan)
{
    static const char form[] = "{\"plan\":{\"params\":4000,\"preset\":\"%s\",\"world\":4,\"accumulation\":%d,"
                               "\"set\":[\"zero_optimization.reduce_bucket_size=1000\"]},\"quantity\":\"moved_bytes\","
                               "\"operation\":\"reduce_scatter\",\"compare\":\"==\",\"value\":%d}";
    char query[512];
    snprintf(query, sizeof query, form, "zero2", 3, 3 * 6000);
    holds(query, 18000);
    snprintf(query, sizeof query, form, "zero1", 1, 6000);
    holds(query, 6000);
}

Test(query, a_configuration_is_accepted_or_refused)
{
    holds("{\"accepts\":{\"preset\":\"zero3\",\"world\":2,\"set\":[\"zero_optimization.reduce_bucket_size=2e8\"]}}",
          NAN);
    fails("{\"accepts\":{\"preset\":\"zero2_offload\",\"world\":2,"
          "\"set\":[\"zero_optimization.offload_optimizer.device=nvme\"]}}");
    holds("{\"accepts\":{\"config\":{\"zero_optimization\":{\"stage\":4}},\"world\":2},\"compare\":\"==\","
          "\"value\":0}",
          0);
    refused("{\"accepts\":{\"preset\":\"zero9\",\"world\":2}}",
            "q.json:1: query.accepts.preset: is 'zero9', which is not a preset; `zerogauge help presets` lists them");
    refused("{\"accepts\":{\"preset\":\"zero3\",\"world\":0}}",
            "q.json:1: query.accepts.world: is 0, expected a whole number from 1 to 100000");
}

Test(query, a_printed_number_is_found_without_its_table_being_evaluated)
{
    holds("{\"printed\":\"offload-table-4\",\"row\":\"8B\",\"column\":\"PT-CPU\",\"compare\":\"==\",\"value\":11.93}",
          11.93);
    holds("{\"printed\":\"zero-table-2\",\"row\":\"MP 16\",\"column\":\"P_os+g+p\",\"compare\":\"==\","
          "\"value\":2e12}",
          2e12);
    refused("{\"printed\":\"offload-table-4\",\"row\":\"3B\",\"column\":\"PT-CPU\",\"compare\":\"==\",\"value\":1}",
            "q.json:1: query.row: there is no cell at row '3B' and column 'PT-CPU' of offload-table-4");
    refused("{\"printed\":\"table\",\"row\":\"3B\",\"column\":\"PT-CPU\",\"compare\":\"==\",\"value\":1}",
            "q.json:1: query.printed: is 'table', which is not a table of the papers; `plan --paper` lists them");
}

Test(query, errors_are_named_with_their_location)
{
    refused("{\"sum\":[1],\"compare\":\"=\",\"value\":1}", "q.json:1: query.compare: is \"=\", expected one of \"<\", "
                                                           "\"<=\", \">\", \">=\", \"==\", \"about\"");
    refused("{\"sum\":[1]}", "q.json:1: query.compare: missing: one of <, <=, >, >=, ==, about, and beside it a value");
    refused("{\"summ\":[1],\"compare\":\"==\",\"value\":1}",
            "q.json:1: query: expected one of the keys plan, equation, printed, rounded, overflows, accepts, sum, "
            "product, difference, quotient, smallest");
    refused("{\"quotient\":[1,{\"difference\":[2,2]}],\"compare\":\"==\",\"value\":1}",
            "q.json:1: query.quotient: divides by zero");
    refused("{\"equation\":\"infinity-11\",\"hidden\":3,\"compare\":\"==\",\"value\":1}",
            "q.json:1: query.interval: missing");
    refused("{\"sum\":[{\"sum\":[1],\"compare\":\"==\",\"value\":1}],\"compare\":\"==\",\"value\":1}",
            "q.json:1: query.sum.0.compare: is inside an expression; only a query compares");
    refused("{\"plan\":{\"params\":10,\"preset\":\"zero1\"},\"quantity\":\"params\",\"compare\":\"==\",\"value\":1}",
            "q.json:1: query.plan.world: missing");
    refused("{\"plan\":{\"preset\":\"zero1\",\"world\":2},\"quantity\":\"params\",\"compare\":\"==\",\"value\":1}",
            "q.json:1: query.plan.model: expected either the name of a model or a count of params");
    refused("{\"plan\":{\"params\":10,\"preset\":\"zero1\",\"world\":2},\"quantity\":\"bytes\","
            "\"compare\":\"==\",\"value\":1}",
            "q.json:1: query.quantity: is \"bytes\", expected one of \"held_bytes\", \"moved_bytes\", \"overlap\", "
            "\"step_s\", \"params\", \"reduce_bucket_elements\", \"aio_block_bytes\"");
}

Test(query, deep_nesting_is_refused)
{
    char query[1024] = "", end[256] = "";
    for (int i = 0; i < 30; i++) {
        strcat(query, "{\"sum\":[");
        strcat(end, "]}");
    }
    strcat(query, "1");
    strcat(query, end);
    char whole[2048];
    snprintf(whole, sizeof whole, "{\"sum\":[%s],\"compare\":\"==\",\"value\":1}", query);
    bool out;
    double measured;
    cr_assert_eq(ask(whole, &out, &measured), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "is more than 24 expressions deep"), "%s", err_message());
}
