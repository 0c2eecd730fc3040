// SPDX-License-Identifier: Apache-2.0
// The papers' equations against values worked out by hand.
#include "plan/papers/query.h"

#include "base/err.h"
#include "plan/planner/plan_texts.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

// Evaluates an expression with what is given for its names: the members of an object.
static double value(const char *expression, const char *given)
{
    char text[512];
    struct json_text parsed;
    double out = -1;
    snprintf(text, sizeof text, "{\"expression\":\"%s\",\"given\":{%s}}", expression, given);
    cr_assert_eq(json_text_parse("e.json", text, strlen(text), &parsed), ERR_NONE, "%s", err_message());
    const struct strict_object root = strict_root(&parsed);
    const struct query_scope scope = {&root, NULL, NULL};
    cr_assert_eq(query_number(&scope, &root, "expression", &out), ERR_NONE, "%s: %s", expression, err_message());
    json_text_close(&parsed);
    return out;
}

// Every name in an equation.
static const char ONES[] =
    "\"batch\":1,\"bandwidth\":1,\"efficiency\":0.5,\"gradients\":1,\"gradients_int4\":1,\"heads\":1,"
    "\"hidden\":1,\"host\":1,\"intensity\":1,\"interval\":1,\"layers\":1,\"parameters\":1,"
    "\"params\":1,\"peak\":1,\"second_copy\":1,\"sequence\":1,\"size\":1,"
    "\"update\":1,\"weights_int8\":1,\"world\":2";

Test(paper_equations, every_one_has_a_value_and_no_two_share_a_name)
{
    char seen[2048] = " ", name[64];
    int count = 0;
    for (const struct plan_text *file = plan_paper_texts; file->name; file++) {
        size_t i;
        json_t *paper = json_loadb(file->text, file->bytes, 0, NULL), *equation;
        json_array_foreach (json_object_get(paper, "equations"), i, equation) {
            snprintf(name, sizeof name, " %s ", json_string_value(json_object_get(equation, "equation")));
            cr_assert_null(strstr(seen, name), "%s", name);
            strcat(seen, name);
            cr_assert_gt(value(name, ONES), 0, "%s", name);
            count++;
        }
        json_decref(paper);
    }
    cr_assert_eq(count, 16);
}

Test(paper_equations, zero_infinity_1_to_5_give_a_trillion_parameters_memory)
{
    static const char trillion[] = "\"layers\":128,\"hidden\":25600";
    cr_assert_eq(value("infinity_1", trillion), 12.0 * 128 * 25600 * 25600);
    cr_assert_eq(value("infinity_2 / infinity_1", trillion), 20);
    cr_assert_eq(value("infinity_3", "\"batch\":2,\"sequence\":3,\"hidden\":5,\"layers\":7,\"interval\":2"),
                 2.0 * 2 * 3 * 5 * 7 / 2);
    cr_assert_eq(value("infinity_4", "\"hidden\":8192"), 1073741824.0);
    cr_assert_eq(value("infinity_5", "\"batch\":2,\"sequence\":3,\"interval\":5,\"hidden\":7,\"heads\":11"),
                 2.0 * 3 * 5 * (16 * 7 + 2 * 11 * 3));
}

Test(paper_equations, zero_infinity_6_is_a_half_where_transfer_takes_as_long_as_compute)
{
    static const char inverse[] = "\"intensity\":512,\"efficiency\":0.9,\"peak\":70e12,\"bandwidth\":"
                                  "\"infinity_6_bandwidth\"";
    cr_assert_eq(value("infinity_6", "\"intensity\":1024,\"bandwidth\":7e10,\"peak\":\"1024 * 7e10\""), 0.5);
    cr_assert_float_eq(value("infinity_6", inverse), 0.9, 1e-12);
    cr_assert_float_eq(value("bandwidth", inverse), 9 * 70e12 / 512, 1);
}

Test(paper_equations, zero_infinity_9_to_11_agree_about_operations_a_byte)
{
    static const char given[] = "\"layers\":50,\"hidden\":4096,\"batch\":8,\"sequence\":1024,\"interval\":1,\"params\":"
                                "\"infinity_1\"";
    double params = value("params", given), operations = 2 * 4 * 8 * 1024 * params;
    // Parameters are read twice and gradients written twice, 2 bytes each; optimizer states are 16 bytes, both ways.
    cr_assert_eq(value("infinity_9", given), operations / (2 * 4 * params));
    cr_assert_eq(value("infinity_10", given), operations / (2 * 16 * params));
    // A checkpoint is written and read.
    cr_assert_eq(value("infinity_11", given), operations / (2 * value("infinity_3", given)));
}

Test(paper_equations, fsdp_full_sharding_sends_half_as_much_again_as_replication)
{
    for (int world = 2; world < 8; world++) {
        char given[64];
        snprintf(given, sizeof given, "\"size\":1,\"world\":%d", world);
        cr_assert_float_eq(value("fsdp_full / fsdp_replicated", given), 1.5, 1e-12);
    }
    cr_assert_eq(value("fsdp_replicated", "\"size\":1,\"world\":4"), 1.5);
    cr_assert_eq(value("fsdp_hybrid", "\"size\":3,\"world\":16,\"host\":8"), 2 * 3 * 15.0 / (8 * 16));
}

Test(paper_equations, zeropp_cuts_three_to_three_quarters)
{
    static const double expected[2][2][2] = {{{3, 2.25}, {2, 1.25}}, {{2, 1.25}, {1.5, 0.75}}};
    for (int flags = 0; flags < 8; flags++) {
        int weights = flags / 4, copy = flags / 2 % 2, gradients = flags % 2;
        char given[128];
        snprintf(given, sizeof given, "\"size\":1,\"weights_int8\":%d,\"second_copy\":%d,\"gradients_int4\":%d",
                 weights, copy, gradients);
        cr_assert_eq(value("zeropp_volume", given), expected[weights][copy][gradients], "%s", given);
    }
}

Test(paper_equations, activations_and_placements_are_counted_in_bytes)
{
    cr_assert_eq(value("zero_activations", "\"hidden\":2,\"batch\":3,\"sequence\":5,\"layers\":7"),
                 2.0 * 12 * 2 * 3 * 5 * 7);
    cr_assert_eq(value("offload_device", "\"parameters\":1,\"gradients\":0,\"update\":1"), 14);
    cr_assert_eq(value("offload_device", "\"parameters\":1,\"gradients\":0,\"update\":0"), 2);
}
