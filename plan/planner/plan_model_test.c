// SPDX-License-Identifier: Apache-2.0
// Shapes: they have their published parameters and operations, and errors in files are named.
#include "plan/planner/plan_model.h"

#include "base/err.h"
#include "plan/papers/paper.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_text(const char *text, const struct model **out)
{
    char path[] = "/tmp/zg-config-XXXXXX.json";
    FILE *file = fdopen(mkstemps(path, 5), "w");
    fputs(text, file);
    fclose(file);
    int rc = plan_model_find(path, 1, out);
    unlink(path);
    return rc;
}

static int read_shape(const char *fields, const struct model **out)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"schema\": 1, \"about\": \"a shape\", \"source\": \"a test\",\n%s}\n", fields);
    return read_text(text, out);
}

#define SMALL                                                                                                          \
    "\"architecture\": \"llama\", \"layers\": 3, \"width\": 8, \"heads\": 4, \"vocabulary\": 11, "                     \
    "\"sequence_length\": 5"

Test(plan_model, every_file_makes_a_model_whose_layers_use_each_parameter)
{
    for (size_t i = 0; plan_model_name(i); i++) {
        const struct model *model;
        cr_assert_eq(plan_model_find(plan_model_name(i), 1, &model), ERR_NONE, "%s", err_message());
        int uses = 0, listed = 0;
        for (int p = 0; p < model->param_count; p++)
            uses += model->params[p].layer_count;
        for (int layer = 0; layer < model->layer_count; layer++)
            listed += model->layers[layer].param_count;
        cr_expect_eq(listed, uses, "%s", model->name);
        cr_expect_gt(strlen(plan_model_source(model)), 10);
    }
}

Test(plan_model, a_trillion_parameters_are_a_trillion)
{
    const struct model *model;
    cr_assert_eq(plan_model_find("gpt-1t", 1, &model), ERR_NONE, "%s", err_message());
    cr_expect_eq(model_param_elements(model, false),
                 12ul * 128 * 25600 * 25600 + 13ul * 128 * 25600 + (50257ul + 1024) * 25600 + 2 * 25600);
}

// The usual rule of 6 operations per matrix element and token, plus attention.
Test(plan_model, operations_are_six_per_used_matrix_element_and_token_plus_attention)
{
    const struct model *dense, *experts, *tied;
    cr_assert_eq(read_shape(SMALL ", \"hidden\": 20, \"key_heads\": 2", &dense), ERR_NONE, "%s", err_message());
    cr_assert_eq(read_shape(SMALL ", \"hidden\": 20, \"key_heads\": 2, \"experts\": 6, \"experts_used\": 2", &experts),
                 ERR_NONE, "%s", err_message());
    cr_assert_eq(read_shape(SMALL ", \"hidden\": 20, \"key_heads\": 2, \"tied_head\": true", &tied), ERR_NONE, "%s",
                 err_message());
    double block = 8 * 8 * 2 + 8 * 4 * 2, mlp = 3 * 8 * 20, head = 11 * 8, attention = 3 * 4 * 5 * 8;
    double tokens = 2 * 5;
    cr_expect_eq(model_flops(dense, 2), tokens * (3 * (6 * (block + mlp) + attention) + 6 * head));
    cr_expect_eq(model_flops(experts, 2), tokens * (3 * (6 * (block + 2 * mlp + 6 * 8) + attention) + 6 * head));
    cr_expect_eq(model_flops(tied, 2), model_flops(dense, 2));
    cr_expect_eq(model_param_elements(dense, false), (uint64_t)(3 * (block + mlp + 16) + 8 + 2 * head));
    cr_expect_eq(model_param_elements(experts, false), (uint64_t)(3 * (block + 6 * mlp + 48 + 16) + 8 + 2 * head));
    cr_expect_eq(model_param_elements(tied, false), (uint64_t)(3 * (block + mlp + 16) + 8 + head));
}

Test(plan_model, errors_in_a_file_are_named_with_their_location)
{
    static const struct {
        const char *fields, *expected;
    } cases[] = {
        {SMALL, "hidden: is "},
        {SMALL ", \"hidden\": 0", "hidden: is 0, expected at least 1"},
        {SMALL ", \"hidden\": 20, \"key_heads\": 5", "key_heads"},
        {SMALL ", \"hidden\": 20, \"experts\": 4", "experts_used: is missing"},
        {SMALL ", \"hidden\": 20, \"widht\": 4", "widht"},
        {"\"architecture\": \"gpt\", \"layers\": 3, \"width\": 8, \"heads\": 4, \"vocabulary\": 11, "
         "\"sequence_length\": 5, \"hidden\": 32",
         "hidden: has no meaning in a gpt"},
        {"\"architecture\": \"rnn\", \"layers\": 3, \"width\": 8, \"heads\": 4, \"vocabulary\": 11, "
         "\"sequence_length\": 5",
         "architecture"},
    };
    const struct model *model;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(read_shape(cases[i].fields, &model), ERR_USAGE);
        cr_expect(strstr(err_message(), cases[i].expected), "%s: %s", cases[i].fields, err_message());
    }
    cr_expect_eq(plan_model_find("llama-8", 1, &model), ERR_USAGE);
    cr_expect(strstr(err_message(), "llama-8b") && strstr(err_message(), "gpt-tiny"), "%s", err_message());
    cr_expect_eq(plan_model_find("llama-8b", 4, &model), ERR_USAGE);
}

// The shapes of datasets/models.json: each loads and has the parameter count that its source gives.

static const struct model *find(const char *name)
{
    const struct model *model;
    cr_assert_eq(plan_model_find(name, 1, &model), ERR_NONE, "%s", err_message());
    return model;
}

Test(model_files, every_shape_has_a_source_and_the_parameters_that_it_publishes)
{
    size_t count = 0;
    for (const char *name; (name = plan_model_name(count)); count++) {
        const struct model *model = find(name);
        const char *published = plan_model_parameters(model);
        double value, last_digit, own = (double)model_param_elements(model, false);
        cr_assert_gt(strlen(plan_model_source(model)), 0, "%s", name);
        cr_assert(paper_number(published, &value, &last_digit), "%s: '%s'", name, published);
        // A count with all digits is exact. Others are rounded up or down, and the papers' omit embeddings.
        double allowed = strspn(published, "0123456789") == strlen(published) ? 0 : fmax(last_digit, 0.05 * value);
        cr_assert_leq(fabs(own - value), allowed, "%s has %.0f parameters, published are %s", name, own, published);
    }
    cr_assert_geq(count, 35);
}

Test(model_files, known_counts_are_exact)
{
    static const struct {
        const char *name;
        uint64_t params;
    } known[] = {
        {"gpt2", 124439808}, {"llama-8b", 8030261248}, {"llama2-70b", 68976648192}, {"mixtral-8x7b", 46702792704}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        cr_assert_eq(model_param_elements(find(known[i].name), false), known[i].params, "%s: %" PRIu64, known[i].name,
                     model_param_elements(find(known[i].name), false));
}

Test(model_files, a_model_without_a_file_has_neither_source_nor_published_count)
{
    const struct model *model = find("gpt:layers=2,width=64,heads=2");
    cr_assert_str_eq(plan_model_source(model), "");
    cr_assert_str_eq(plan_model_parameters(model), "");
}
