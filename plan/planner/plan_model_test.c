// SPDX-License-Identifier: Apache-2.0
// Shapes: they have their published parameters and operations, and errors in files are named.
#include "plan/planner/plan_model.h"

#include "base/err.h"
#include "plan/papers/paper.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

// Shapes from config.json have the parameters that are published for the checkpoints, to the last one.

static const struct model *read_config(const char *text)
{
    const struct model *model;
    cr_assert_eq(read_text(text, &model), ERR_NONE, "%s: %s", text, err_message());
    return model;
}

#define SIZES(type, layers, width, heads, keys, hidden, vocabulary)                                                    \
    "{\"model_type\": \"" type "\", \"num_hidden_layers\": " #layers ", \"hidden_size\": " #width                      \
    ", \"num_attention_heads\": " #heads ", \"num_key_value_heads\": " #keys ", \"intermediate_size\": " #hidden       \
    ", \"vocab_size\": " #vocabulary ", \"max_position_embeddings\": 8192"
#define LATENT(queries)                                                                                                \
    ", \"q_lora_rank\": " #queries ", \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "    \
    "\"v_head_dim\": 128"
#define EXPERTS(count, used, shared, hidden, dense)                                                                    \
    ", \"n_routed_experts\": " #count ", \"num_experts_per_tok\": " #used ", \"n_shared_experts\": " #shared           \
    ", \"moe_intermediate_size\": " #hidden ", \"first_k_dense_replace\": " #dense
#define DEEPSEEK_V3 SIZES("deepseek_v3", 61, 7168, 128, 128, 18432, 129280) LATENT(1536) EXPERTS(256, 8, 1, 2048, 3) "}"
#define GEMMA_2(window) SIZES("gemma2", 42, 3584, 16, 8, 14336, 256000) ", \"head_dim\": 256" window "}"

Test(plan_hugging_face, known_counts_are_exact)
{
    static const struct {
        uint64_t params;
        const char *text;
    } known[] = {
        {671026419200, DEEPSEEK_V3},
        {235741434880,
         SIZES("deepseek_v2", 60, 5120, 128, 128, 12288, 102400) LATENT(1536) EXPERTS(160, 6, 2, 1536, 1) "}"},
        {15706484224,  // V2-Lite: queries are projected directly
         SIZES("deepseek_v2", 27, 2048, 16, 16, 10944, 102400) LATENT(null) EXPERTS(64, 6, 2, 1408, 1) "}"},
        {9241705984, GEMMA_2(", \"sliding_window\": 4096")},
        {8537680896, SIZES("gemma", 28, 3072, 16, 16, 24576, 256000) ", \"head_dim\": 256}"},
        {999885952, SIZES("gemma3_text", 26, 1152, 4, 1, 6912, 262144) ", \"head_dim\": 256}"},
        {20914757184, SIZES("gpt_oss", 24, 2880, 64, 8, 2880, 201088) ", \"head_dim\": 64, \"num_local_experts\": 32, "
                                                                      "\"num_experts_per_tok\": 4}"},
        {116829156672, SIZES("gpt_oss", 36, 2880, 64, 8, 2880, 201088) ", \"head_dim\": 64, \"num_local_experts\": "
                                                                       "128, \"num_experts_per_tok\": 4}"},
        {8030588928, SIZES("llama", 32, 4096, 32, 8, 14336, 128256) ", \"attention_bias\": true}"},
        {27009346304, "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\", "
                      "\"hidden_size\": 5376, \"intermediate_size\": 21504, \"num_hidden_layers\": 62, "
                      "\"num_attention_heads\": 32, \"num_key_value_heads\": 16, \"head_dim\": 128, "
                      "\"sliding_window\": 1024}, \"vision_config\": {\"num_hidden_layers\": 27}}"},
        {19476912,  // transformers' module of this shape, with the experts' balancing biases
         SIZES("glm4_moe", 5, 512, 12, 4, 1024, 1000) EXPERTS(16, 4, 1, 128, 2) ", \"head_dim\": 64, "
                                                                                "\"attention_bias\": true, "
                                                                                "\"use_qk_norm\": true}"},
        {7615616512, SIZES("qwen2", 28, 3584, 28, 4, 18944, 152064) "}"},
        {8190735360, SIZES("qwen3", 36, 4096, 32, 8, 12288, 151936) ", \"head_dim\": 128}"},
        {30532122624, SIZES("qwen3_moe", 48, 2048, 32, 4, 6144, 151936) ", \"head_dim\": 128, \"num_experts\": 128, "
                                                                        "\"num_experts_per_tok\": 8, "
                                                                        "\"moe_intermediate_size\": 768}"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t own = model_param_elements(read_config(known[i].text), false);
        cr_expect_eq(own, known[i].params, "%" PRIu64 ", published %" PRIu64 ": %s", own, known[i].params,
                     known[i].text);
    }
}

// A token of 8,192 attends to 4,096 keys on average, with a window of 4,096 to 4,096 - 1,024.
Test(plan_hugging_face, a_window_shortens_attention_in_its_blocks)
{
    const struct model *whole = read_config(GEMMA_2("")), *half = read_config(GEMMA_2(", \"sliding_window\": 4096"));
    struct transformer t;
    cr_assert(plan_model_transformer(whole, &t));
    cr_expect_float_eq(t.attended_length, 8192, 1e-6, "%g", t.attended_length);
    cr_assert(plan_model_transformer(half, &t));
    cr_expect_float_eq(t.attended_length, (8192 + 2 * (4096 - 1024)) / 2.0, 1e-6, "%g", t.attended_length);
    double tokens = 8192, saved = 21 * 3 * 4 * (8192 - 2 * (4096 - 1024)) * 16 * 256.0;
    cr_expect_float_eq(model_flops(whole, 1) - model_flops(half, 1), tokens * saved, 1e-9 * tokens * saved);
}

// 37B of 671B parameters are active for a token, of which the embedding is not multiplied (arXiv 2412.19437).
Test(plan_hugging_face, a_token_passes_the_shared_and_its_own_experts)
{
    const struct model *model = read_config(DEEPSEEK_V3);
    struct transformer t;
    cr_assert(plan_model_transformer(model, &t));
    cr_expect_eq(t.query_width, 128 * 192);
    cr_expect_eq(t.output_width, 128 * 128);
    cr_expect_eq(t.shared_hidden, 2048 * 58 / 61 + 3 * 18432 / 61, "%zu: shared experts and dense MLPs",
                 t.shared_hidden);
    double attention = 61 * 8192.0 * 2 * 128 * (192 + 128);
    double active = (model_flops(model, 1) / 3 / 8192 - attention) / 2 + 129280 * 7168.0;
    cr_expect_float_eq(active, 37.5e9, 0.2e9, "%g", active);
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
