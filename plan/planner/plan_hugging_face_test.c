// SPDX-License-Identifier: Apache-2.0
// Shapes from config.json: parameters as transformers makes them, to the last one; work of windows and experts; what a
// file says that a plan leaves out; refusals.
#include "plan/planner/plan_model.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <inttypes.h>
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
#define SMALL(type, more) SIZES(type, 4, 64, 4, 2, 128, 100) more "}"

// Every line of the file has a count, which transformers' module of this shape has, and the configuration.
Test(plan_hugging_face, every_type_has_the_parameters_of_its_module)
{
    FILE *file = fopen(ZG_SOURCE_DIR "/plan/shape/hugging_face_counts.txt", "r");
    char line[4096], *text;
    int count = 0;
    cr_assert(file);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#')
            continue;
        uint64_t expected = strtoull(line, &text, 10), own = model_param_elements(read_config(text), false);
        cr_expect_eq(own, expected, "%" PRIu64 ", not %" PRIu64 ": %s", own, expected, text);
        count++;
    }
    fclose(file);
    cr_expect_geq(count, 130);
}

Test(plan_hugging_face, published_counts_are_exact)
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
        {9241705984, GEMMA_2("")},
        {8537680896, SIZES("gemma", 28, 3072, 16, 16, 24576, 256000) ", \"head_dim\": 256}"},
        {999885952, SIZES("gemma3_text", 26, 1152, 4, 1, 6912, 262144) ", \"head_dim\": 256}"},
        {116829156672, SIZES("gpt_oss", 36, 2880, 64, 8, 2880, 201088) ", \"head_dim\": 64, \"num_local_experts\": "
                                                                       "128, \"num_experts_per_tok\": 4}"},
        {8030588928, SIZES("llama", 32, 4096, 32, 8, 14336, 128256) ", \"attention_bias\": true}"},
        {27009346304, "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\", "
                      "\"hidden_size\": 5376, \"intermediate_size\": 21504, \"num_hidden_layers\": 62, "
                      "\"num_attention_heads\": 32, \"num_key_value_heads\": 16, \"head_dim\": 128, "
                      "\"sliding_window\": 1024}, \"vision_config\": {\"num_hidden_layers\": 27}}"},
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

Test(plan_hugging_face, a_configuration_gives_the_shape)
{
    const struct model *same,
        *model = read_config(SIZES("mixtral", 32, 4096, 32, 8, 14336, 32000) ", \"num_local_experts\": 8, "
                                                                             "\"num_experts_per_tok\": 2}");
    cr_assert_eq(plan_model_find_variant("mixtral-8x7b", &(struct plan_model_variant){.sequence_length = 8192}, &same),
                 ERR_NONE);
    cr_expect_eq(model_param_elements(model, false), model_param_elements(same, false));
    cr_expect_eq(model_flops(model, 1), model_flops(same, 1));
}

// A head of an image model's text is tied where the text's own configuration says so, or else the whole one.
Test(plan_hugging_face, a_tied_head_of_the_whole_model_is_its_texts)
{
#define WRAPPED(inner, outer)                                                                                          \
    "{\"model_type\": \"llava\", \"text_config\": " SMALL("llama", inner) ", \"tie_word_embeddings\": " outer "}"
    uint64_t head = 100 * 64, own = model_param_elements(read_config(WRAPPED("", "false")), false);
    cr_expect_eq(model_param_elements(read_config(WRAPPED("", "true")), false), own - head);
    cr_expect_eq(model_param_elements(read_config(WRAPPED(", \"tie_word_embeddings\": false", "true")), false), own);
}

// A token of 8,192 attends to 4,096 keys on average, with a window of 4,096 to 4,096 - 1,024.
Test(plan_hugging_face, a_window_shortens_attention_in_its_blocks)
{
    const struct model *whole = read_config(GEMMA_2(", \"sliding_window\": null")),
                       *half = read_config(GEMMA_2(", \"sliding_window\": 4096"));
    struct transformer t;
    cr_assert(plan_model_transformer(whole, &t));
    cr_expect_float_eq(t.attended_length, 8192, 1e-6, "%g", t.attended_length);
    cr_assert(plan_model_transformer(half, &t));
    cr_expect_float_eq(t.attended_length, (8192 + 2 * (4096 - 1024)) / 2.0, 1e-6, "%g", t.attended_length);
    double tokens = 8192, saved = 21 * 3 * 4 * (8192 - 2 * (4096 - 1024)) * 16 * 256.0;
    cr_expect_float_eq(model_flops(whole, 1) - model_flops(half, 1), tokens * saved, 1e-9 * tokens * saved);
}

// Twice the keys of a token, on average over the four blocks: with a window of 1,024 of 8,192, or a chunk of it.
Test(plan_hugging_face, which_blocks_have_a_window_follows_from_the_file_or_the_type)
{
    enum { ALL = 8192, SOME = 2 * (1024 - 64), CHUNK = 1024 };
#define WINDOW ", \"sliding_window\": 1024"
    static const struct {
        const char *text;
        int sum;
    } cases[] = {
        {SMALL("mistral", WINDOW), 4 * SOME},
        {SMALL("mistral", ", \"sliding_window\": null"), 4 * ALL},
        {SMALL("llama", WINDOW), 4 * ALL},
        {SMALL("qwen3", WINDOW), 4 * ALL},
        {SMALL("qwen3", WINDOW ", \"use_sliding_window\": true, \"max_window_layers\": 3"), 3 * ALL + SOME},
        {SMALL("gemma2", WINDOW), 2 * ALL + 2 * SOME},
        {SMALL("gemma3_text", WINDOW), 4 * SOME},
        {SMALL("gemma3_text", WINDOW ", \"sliding_window_pattern\": 4"), 3 * SOME + ALL},
        {SMALL("exaone4", WINDOW ", \"sliding_window_pattern\": \"LG\""), 2 * SOME + 2 * ALL},
        {SMALL("olmo3", WINDOW), 3 * SOME + ALL},
        {SMALL("olmo3", WINDOW ", \"layer_types\": [\"full_attention\", \"full_attention\", \"sliding_attention\", "
                               "\"full_attention\"]"),
         SOME + 3 * ALL},
        {SMALL("llama4_text", ", \"attention_chunk_size\": 1024, \"intermediate_size_mlp\": 96, "
                              "\"no_rope_layers\": [1, 1, 0, 1]"),
         3 * CHUNK + ALL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct transformer t;
        cr_assert(plan_model_transformer(read_config(cases[i].text), &t));
        cr_expect_float_eq(t.attended_length, cases[i].sum / 4.0, 1e-6, "%s: %g", cases[i].text, t.attended_length);
    }
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

// A linear mixer has a state and no scores: its work does not grow with the sequence.
Test(plan_hugging_face, a_state_works_the_same_for_each_token_of_any_length)
{
#define MAMBA_2                                                                                                        \
    "{\"model_type\": \"mamba2\", \"hidden_size\": 64, \"num_hidden_layers\": 2, \"vocab_size\": 100, "                \
    "\"state_size\": 16, \"num_heads\": 4, \"head_dim\": 32, \"n_groups\": 1, \"max_position_embeddings\": "
    const struct model *one = read_config(MAMBA_2 "1024}"), *two = read_config(MAMBA_2 "2048}");
    double elements = (2 * 128 + 2 * 16 + 4) * 64 + 128 * 64, state = 4 * 16 * 128 + 2 * 4 * (128 + 32);
    cr_expect_eq(model_layer_flops(one, 1, 1), 1024 * (2 * elements + state));
    cr_expect_eq(model_flops(two, 1), 2 * model_flops(one, 1));
}

Test(plan_hugging_face, what_a_file_says_beyond_its_shape_is_noted)
{
    static const struct {
        const char *text, *note;
    } cases[] = {
        {SMALL("llama", ", \"rope_theta\": 1e6, \"torch_dtype\": \"bfloat16\", \"pad_token_id\": 3, \"x\": false"), ""},
        {SMALL("llama", ", \"depth\": 7, \"use_qk_norm\": true"), "2 keys are not known here, and without effect: "},
        {SMALL("llama", ", \"sliding_window\": 512"), "1 key is not known here, and without effect: sliding_window\n"},
        {SMALL("llama", ", \"quantization_config\": {\"quant_method\": \"fp8\"}"), "quantization_config is of"},
        {SMALL("llama", ", \"attention_dropout\": 0.1"), "attention_dropout is above 0"},
        {SMALL("glm4_moe", EXPERTS(8, 2, 1, 32, 1) ", \"num_nextn_predict_layers\": 1"),
         "multi-token prediction are left out: 1\n"},
        {"{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\", \"hidden_size\": 2560, "
         "\"intermediate_size\": 10240, \"num_hidden_layers\": 34}}",
         "num_attention_heads is not in the file: 8, transformers' default for a gemma3_text\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *notes = plan_model_notes(read_config(cases[i].text));
        cr_expect(cases[i].note[0] ? strstr(notes, cases[i].note) != NULL : !notes[0], "%s: %s", cases[i].text, notes);
    }
}

Test(plan_hugging_face, a_configuration_that_gives_no_shape_is_refused)
{
    static const char *const texts[][2] = {
        {"{\"model_type\": \"llama\"}", "num_hidden_layers"},
        {SMALL("deepseek_v3", ", \"kv_lora_rank\": 512"), "qk_nope_head_dim: "},
        {SMALL("rwkv", ""), "model_type: is \"rwkv\""},
        {SMALL("bert", ""), "model_type: is \"bert\""},
        {SIZES("llama", 2, 64, 4, 8, 128, 100) "}", "num_key_value_heads: is 8"},
        {SIZES("llama", 2, 4096, 32, 7, 128, 100) "}",
         "num_key_value_heads: is 7, expected a divisor of the number of heads, 32"},
        {SIZES("llama", 2, 4096, 33, 33, 128, 100) "}",
         "num_attention_heads: is 33, expected a divisor of the width without a head_dim, 4096"},
        {SMALL("mixtral", ", \"num_local_experts\": 4, \"num_experts_per_tok\": 9"), "num_experts_per_tok: is 9"},
        {SMALL("llama", ", \"head_dim\": 16777216"), "head_dim: is 16777216"},
        {SMALL("olmo3", ", \"layer_types\": [\"full_attention\"]"), "layer_types: has 1 values, expected one for each"},
        {SMALL("olmo3", ", \"layer_types\": [\"full_attention\", \"full_attention\", \"wide\", \"full_attention\"]"),
         "layer_types: has \"wide\""},
        {SMALL("hunyuan_v1_moe", ", \"num_experts\": 4, \"moe_topk\": [2, 2, 1, 2]"),
         "moe_topk: has blocks that differ"},
        {SMALL("falcon_h1", ", \"mamba_n_heads\": 1048576, \"mamba_d_head\": 1048576, \"mamba_d_state\": 1, "
                            "\"mamba_n_groups\": 1"),
         "channels of a state space"},
        {SMALL("lfm2", ", \"block_ffn_dim_multiplier\": -1"), "block_ffn_dim_multiplier: is -1"},
        {SMALL("qwen3_next", ", \"linear_num_key_heads\": 2"), "linear_key_head_dim: "},
    };
    const struct model *model;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cr_expect_eq(read_text(texts[i][0], &model), ERR_USAGE, "%s", texts[i][0]);
        cr_expect(strstr(err_message(), texts[i][1]), "%s: %s", texts[i][1], err_message());
    }
}
