// SPDX-License-Identifier: Apache-2.0
// Parts on a mesh: together they are the whole, and their gradients add up to the gradients of the data ranks.
#include "conformance/cases/case_mesh.h"
#include "conformance/suite/suite.h"
#include "base/err.h"
#include "base/strict_json.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

// Calls check for each case of the full suite that is on a mesh.
struct meshes {
    void (*check)(const struct check_case *c);
    size_t count;
};

static int visit(void *context, const struct check_case *c)
{
    struct meshes *meshes = context;
    if (!case_has_mesh(c))
        return ERR_NONE;
    meshes->check(c);
    meshes->count++;
    return ERR_NONE;
}

static void for_each_mesh(enum suite_level level, void (*check)(const struct check_case *c))
{
    struct meshes meshes = {.check = check};
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = level}, visit, &meshes), ERR_NONE, "%s", err_message());
    cr_assert_gt(meshes.count, 100);
}

// Each element of each parameter is on the same number of ranks of each data rank: one, or all tensor ranks.
static void expect_whole(const struct check_case *c)
{
    struct mesh mesh = case_mesh(c);
    for (int param = 0; param < c->param_count; param++) {
        int *held = calloc(c->params[param].count + 1, sizeof *held);
        for (int rank = 0; rank < c->world; rank++)
            for (size_t i = 0; case_holds(c, rank, param) && i < case_part_count(c, param); i++) {
                size_t at = case_whole_element(c, mesh_index_in(&mesh, MESH_TENSOR, rank), param, i);
                cr_assert_lt(at, c->params[param].count, "%s", c->name);
                held[at]++;
            }
        int copies = mesh_group_size(&mesh, c->params[param].placement.is_expert ? MESH_EXPERT_DATA : MESH_DATA) *
                     (c->params[param].placement.part == PART_CUT ? 1 : mesh.tensor);
        for (size_t i = 0; i < c->params[param].count; i++)
            cr_assert_eq(held[i], copies, "%s: %s[%zu] is on %d ranks", c->name, c->params[param].name, i, held[i]);
        free(held);
    }
}

Test(case_mesh, parts_are_the_whole_parameter_and_no_more)
{
    for_each_mesh(LEVEL_FULL, expect_whole);
}

// The sum over the ranks of the parts' gradients is that over the data ranks, times the copies of whole ones.
static void expect_sum(const struct check_case *c)
{
    struct case_values *values;
    struct mesh mesh = case_mesh(c);
    cr_assert_eq(case_values_open(c, &values), ERR_NONE, "%s", err_message());
    for (int use = 0; use < c->param_count; use++) {
        size_t count = c->params[use].count;
        double *expected = calloc(count + 1, sizeof *expected), *actual = calloc(count + 1, sizeof *actual);
        float *part = calloc(count + 1, sizeof *part);
        for (int data = 0; data < case_batches(c) && case_is_used(c, use); data++)
            for (size_t i = 0; i < count; i++)
                expected[i] += (double)case_gradient(values, 1, 0, data, use)[i];
        for (int rank = 0; rank < c->world; rank++) {
            if (!case_is_used(c, use) || !case_holds(c, rank, use))
                continue;
            case_part_gradient(c, values, 1, 0, rank, use, part);
            for (size_t i = 0; i < case_part_count(c, use); i++)
                actual[case_whole_element(c, mesh_index_in(&mesh, MESH_TENSOR, rank), use, i)] += (double)part[i];
        }
        int copies = c->params[use].placement.part == PART_WHOLE ? mesh.tensor : 1;
        for (size_t i = 0; i < count; i++)
            cr_assert_eq(actual[i], copies * expected[i], "%s: %s[%zu]", c->name, c->params[use].name, i);
        free(expected);
        free(actual);
        free(part);
    }
    case_values_close(values);
}

Test(case_mesh, gradients_of_the_parts_are_those_of_the_data_ranks)
{
    for_each_mesh(LEVEL_QUICK, expect_sum);
}

Test(case_mesh, a_part_cut_along_columns_has_runs_of_each_row)
{
    struct check_case c = {.world = 2, .mesh = {1, 1, 2, 1, 1}, .param_count = 1};
    c.params[0] = (struct case_param){.shape = {2, 6}, .shape_rank = 2, .count = 12, .used = true, .tied_to = -1};
    c.params[0].placement = (struct case_placement){.part = PART_CUT, .dimension = 1};
    static const size_t expected[2][6] = {{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}};
    cr_assert_eq(case_part_count(&c, 0), 6);
    for (int rank = 0; rank < 2; rank++)
        for (size_t i = 0; i < 6; i++)
            cr_expect_eq(case_whole_element(&c, rank, 0, i), expected[rank][i], "%d %zu", rank, i);
}

// Reads a case whose "world", "mesh" and "params" are these.
static int parse(int world, const char *mesh, const char *param)
{
    static struct check_case c;
    char text[2048];
    int bytes = snprintf(
        text, sizeof text,
        "{\"contract\": 1, \"name\": \"plain\", \"note\": \"\", \"world\": %d, %s\"steps\": 1, \"accumulation\": 1, "
        "\"stage\": 1, \"precision\": \"fp32\", \"communication_dtype\": \"fp32\", \"accumulation_dtype\": \"fp32\", "
        "\"params\": [{\"name\": \"a\", \"shape\": [4, 3], \"group\": 0, \"frozen\": false, \"used\": true, "
        "\"tied_to\": null%s}], \"groups\": [{\"optimizer\": \"Adam\", \"lr\": 0.5, \"betas\": [0.9, 0.95], "
        "\"eps\": 1e-8, \"weight_decay\": 0, \"bias_correction\": true}], \"gradient_clipping\": 0, "
        "\"loss_scale\": {\"kind\": \"none\"}, \"overflow_check\": false, \"buckets\": {\"reduce\": 1, "
        "\"allgather\": 1, \"prefetch\": 1, \"sub_group\": 1}, \"hints\": {\"overlap\": false, "
        "\"contiguous_gradients\": false, \"reduce_scatter\": false}, \"offload\": {\"optimizer\": \"none\", "
        "\"param\": \"none\"}, \"delayed_update\": 0, \"checkpoint\": null, \"exact\": true, \"expect\": \"answer\"}",
        world, mesh, param);
    return case_parse("case.json", text, (size_t)bytes, &c);
}

#define MESH(r, s, t, p, e)                                                                                            \
    "\"mesh\": {\"replicate\": " #r ", \"shard\": " #s ", \"tensor\": " #t ", \"pipeline\": " #p ", \"expert\": " #e   \
    "}, "
#define SEQUENCE(r, s, e, c)                                                                                           \
    "\"mesh\": {\"replicate\": " #r ", \"shard\": " #s ", \"tensor\": 1, \"pipeline\": 1, \"expert\": " #e             \
    ", \"sequence\": " #c "}, "
#define PLACE(pipeline, tensor, dimension, expert)                                                                     \
    ", \"placement\": {\"pipeline\": " #pipeline ", \"tensor\": \"" tensor "\", \"dimension\": " #dimension            \
    ", \"expert\": " #expert "}"

Test(case_mesh, what_does_not_fit_is_refused_with_the_reason)
{
    static const struct {
        const char *mesh, *param, *message;
        int world;
    } rows[] = {
        {MESH(1, 2, 2, 1, 1), PLACE(0, "whole", null, null), "is 4 ranks, the world has 2", 2},
        {MESH(1, 2, 1, 1, 1), "", "placement: is missing", 2},
        {"", PLACE(0, "whole", null, null), "is given in a case without a mesh", 2},
        {MESH(1, 1, 2, 1, 1), PLACE(0, "cut", 1, null), "has 3 elements, which 2 tensor ranks do not divide", 2},
        {MESH(1, 1, 2, 1, 1), PLACE(0, "cut", null, null), "dimension: is null", 2},
        {MESH(1, 1, 2, 1, 1), PLACE(0, "whole", 0, null), "that is not cut, expected null", 2},
        {MESH(1, 1, 1, 2, 1), PLACE(2, "whole", null, null), "placement.pipeline: is 2", 2},
        {MESH(1, 2, 1, 1, 2), PLACE(0, "whole", null, 2), "does not divide the 3 experts", 2},
        {MESH(1, 2, 1, 1, 2), PLACE(0, "whole", null, null), "does not divide the 0 experts", 2},
        {SEQUENCE(1, 2, 1, 4), PLACE(0, "whole", null, null), "sequence: is 4, which does not divide the 2 data ranks",
         2},
        {SEQUENCE(1, 6, 2, 3), PLACE(0, "whole", null, 1), "sequence: is 3 with expert=2, expected one to divide", 6},
        {SEQUENCE(2, 1, 1, 0), PLACE(0, "whole", null, null), "sequence: is 0", 2},
    };
    cr_assert_eq(parse(2, "", ""), ERR_NONE, "%s", err_message());
    cr_assert_eq(parse(2, MESH(1, 1, 2, 1, 1), PLACE(0, "cut", 0, null)), ERR_NONE, "%s", err_message());
    cr_assert_eq(parse(2, MESH(1, 2, 1, 1, 2), PLACE(0, "whole", null, 3)), ERR_NONE, "%s", err_message());
    cr_assert_eq(parse(4, SEQUENCE(1, 4, 2, 2), PLACE(0, "whole", null, 1)), ERR_NONE, "%s", err_message());
    cr_assert_eq(parse(2, SEQUENCE(2, 1, 1, 2), PLACE(0, "whole", null, null)), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(parse(rows[i].world, rows[i].mesh, rows[i].param), ERR_USAGE, "%zu", i);
        cr_expect_not_null(strstr(err_message(), rows[i].message), "%zu: %s", i, err_message());
    }
}

Test(case_mesh, a_case_needs_the_options_that_it_uses)
{
    struct check_case c = {.world = 4, .param_count = 1};
    static const struct {
        struct mesh mesh;
        unsigned options;
        int sequence;
    } rows[] = {
        {{0}, 0, 0},
        {{1, 4, 1, 1, 1}, 1u << OPTION_REPLICATE, 0},
        {{2, 2, 1, 1, 1}, 1u << OPTION_REPLICATE, 0},
        {{1, 2, 2, 1, 1}, 1u << OPTION_TENSOR, 0},
        {{2, 1, 2, 1, 1}, 1u << OPTION_REPLICATE | 1u << OPTION_TENSOR, 0},
        {{1, 1, 2, 2, 1}, 1u << OPTION_PIPELINE | 1u << OPTION_TENSOR, 0},
        {{1, 4, 1, 1, 2}, 1u << OPTION_EXPERT, 0},
        {{1, 4, 1, 1, 1}, 1u << OPTION_SEQUENCE, 2},
        {{2, 2, 1, 1, 1}, 1u << OPTION_SEQUENCE | 1u << OPTION_REPLICATE, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        c.mesh = rows[i].mesh;
        c.sequence = rows[i].sequence;
        cr_expect_eq(case_options(&c), rows[i].options, "%zu", i);
    }
    c.mesh = (struct mesh){0};
    c.sequence = 0;
    c.params[0].is_adapter = true;
    c.gathers_e4m3 = true;
    cr_expect_eq(case_options(&c), 1u << OPTION_LORA | 1u << OPTION_FP8_GATHER);
}
