// SPDX-License-Identifier: Apache-2.0
// Shapes from config.json have the parameters that are published for the checkpoints, to the last one.
#include "plan/planner/plan_model.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct model *read_config(const char *text)
{
    char path[] = "/tmp/zg-config-XXXXXX.json";
    const struct model *model;
    FILE *file = fdopen(mkstemps(path, 5), "w");
    fputs(text, file);
    fclose(file);
    int rc = plan_model_find(path, 1, &model);
    unlink(path);
    cr_assert_eq(rc, ERR_NONE, "%s: %s", text, err_message());
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
    cr_expect_eq(t.shared_hidden, 2048);
    double attention = 61 * 8192.0 * 2 * 128 * (192 + 128);
    double active = (model_flops(model, 1) / 3 / 8192 - attention) / 2 + 129280 * 7168.0;
    cr_expect_float_eq(active, 37.5e9, 0.2e9, "%g", active);
}
