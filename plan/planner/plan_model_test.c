// SPDX-License-Identifier: Apache-2.0
// Shapes: they have their published parameters and operations, and errors in files are named.
#include "plan/planner/plan_model.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_shape(const char *fields, const struct model **out)
{
    char path[] = "/tmp/zg-shape-XXXXXX.json";
    FILE *file = fdopen(mkstemps(path, 5), "w");
    fprintf(file, "{\"schema\": 1, \"about\": \"a shape\", \"source\": \"a test\",\n%s}\n", fields);
    fclose(file);
    int rc = plan_model_find(path, 1, out);
    unlink(path);
    return rc;
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

Test(plan_model, a_hugging_face_configuration_gives_the_shape)
{
    const struct model *model, *same;
    cr_assert_eq(read_text("{\"model_type\": \"mixtral\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
                           "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
                           "\"vocab_size\": 32000, \"max_position_embeddings\": 32768, \"num_local_experts\": 8, "
                           "\"num_experts_per_tok\": 2, \"tie_word_embeddings\": false, \"rope_theta\": 1e6}",
                           &model),
                 ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_model_find("mixtral-8x7b", 1, &same), ERR_NONE);
    cr_expect_eq(model_param_elements(model, false), model_param_elements(same, false));
    cr_expect_eq(model_flops(model, 1), model_flops(same, 1));
    cr_expect_eq(read_text("{\"model_type\": \"llama\"}", &model), ERR_USAGE);
    cr_expect(strstr(err_message(), "num_hidden_layers"), "%s", err_message());
}

#define CONFIG_FACE(type, heads, more)                                                                                 \
    "{\"model_type\": \"" type "\", \"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": " heads    \
    ", \"intermediate_size\": 128, \"vocab_size\": 100, \"max_position_embeddings\": 128" more "}"

Test(plan_model, a_hugging_face_configuration_of_no_llama_is_refused)
{
    static const char *const texts[][2] = {
        {CONFIG_FACE("deepseek_v3", "4", ", \"kv_lora_rank\": 512"), "qk_nope_head_dim: "},
        {CONFIG_FACE("mamba", "4", ""), "model_type: is \"mamba\""},
        {CONFIG_FACE("bert", "4", ""), "model_type: is \"bert\""},
        {CONFIG_FACE("llama", "128", ""), "128 heads of a width of 64"},
        {CONFIG_FACE("llama", "4", ", \"num_key_value_heads\": 8"), "num_key_value_heads: is 8"},
        {CONFIG_FACE("mixtral", "4", ", \"num_local_experts\": 4, \"num_experts_per_tok\": 9"),
         "num_experts_per_tok: is 9"},
        {CONFIG_FACE("llama", "4", ", \"head_dim\": 16777216"), "head_dim: is 16777216"},
        {CONFIG_FACE("qwen3_moe", "4", ", \"mlp_only_layers\": [1]"), "mlp_only_layers: has blocks unlike"},
    };
    const struct model *model;
    cr_assert_eq(read_text(CONFIG_FACE("llama", "4", ""), &model), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cr_expect_eq(read_text(texts[i][0], &model), ERR_USAGE);
        cr_expect(strstr(err_message(), texts[i][1]), "%s: %s", texts[i][1], err_message());
    }
}
