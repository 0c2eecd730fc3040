// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_llama.h"

#include "base/err.h"

#include <string.h>

bool plan_is_hugging_face(const struct strict_object *object)
{
    return json_object_get(object->value, "model_type");
}

static bool has(const struct strict_object *object, const char *key)
{
    const json_t *value = json_object_get(object->value, key);
    return value && !json_is_null(value);
}

int plan_read_size(const struct strict_object *object, const char *key, int64_t high, size_t *out)
{
    TRY(strict_size(object, key, high, out));
    return *out > 0 ? ERR_NONE : strict_fail(object, key, "is 0, expected at least 1");
}

// Reads the first of the keys, ended by NULL, that is there; `without` if none is.
static int read_first(const struct strict_object *object, const char *const keys[], int64_t high, size_t without,
                      size_t *out)
{
    *out = without;
    for (; *keys; keys++)
        if (has(object, *keys))
            return plan_read_size(object, *keys, high, out);
    return ERR_NONE;
}

enum family { LLAMA, DEEPSEEK, GPT_OSS };

// A type's code adds these to Llama's blocks; its file does not say so.
struct type {
    const char *name;
    enum family family;
    size_t block_norms;                                  // 0: 2
    size_t window_period;                                // of the sliding window, 0: every block has it
    bool head_norms, key_biases, tied_head, window_off;  // window_off: only with use_sliding_window
};

static const struct type types[] = {
    {.name = "llama"},
    {.name = "mistral"},
    {.name = "mixtral"},
    {.name = "qwen2", .key_biases = true, .window_off = true},
    {.name = "qwen3", .head_norms = true, .window_off = true},
    {.name = "qwen3_moe", .head_norms = true, .window_off = true},
    {.name = "gpt_oss", .family = GPT_OSS, .window_period = 2},
    {.name = "phi3"},
    {.name = "olmo2"},
    {.name = "granite"},
    {.name = "deepseek_v2", .family = DEEPSEEK},
    {.name = "deepseek_v3", .family = DEEPSEEK},
    {.name = "gemma", .tied_head = true},
    {.name = "gemma2", .block_norms = 4, .window_period = 2, .tied_head = true},
    {.name = "gemma3_text", .block_norms = 4, .window_period = 6, .head_norms = true, .tied_head = true},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static int read_type(const struct strict_object *object, const struct type **out)
{
    const char *names[TYPE_COUNT + 1] = {0};
    int index;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        names[i] = types[i].name;
    TRY(strict_word(object, "model_type", names, &index));
    *out = &types[index];
    return ERR_NONE;
}

static int read_experts(const struct strict_object *object, struct llama_shape *out)
{
    static const char *const expert_keys[] = {"num_local_experts", "num_experts", "n_routed_experts", NULL};
    static const char *const hidden_keys[] = {"moe_intermediate_size", "intermediate_size", NULL};
    size_t shared;
    TRY(read_first(object, expert_keys, LLAMA_EXPERTS_MAX, 0, &out->experts));
    if (out->experts == 0)
        return ERR_NONE;
    out->dense_hidden = out->hidden;
    TRY(plan_read_size(object, "num_experts_per_tok", (int64_t)out->experts, &out->experts_used));
    TRY(read_first(object, hidden_keys, LLAMA_SIZE_MAX, 0, &out->hidden));
    TRY(read_first(object, (const char *const[]){"n_shared_experts", NULL}, LLAMA_EXPERTS_MAX, 0, &shared));
    out->shared_hidden = shared * out->hidden;
    return has(object, "first_k_dense_replace")
               ? strict_size(object, "first_k_dense_replace", (int64_t)out->blocks, &out->dense_blocks)
               : ERR_NONE;
}

static int read_latents(const struct strict_object *object, struct llama_shape *out)
{
    TRY(plan_read_size(object, "kv_lora_rank", LLAMA_SIZE_MAX, &out->key_latent));
    TRY(read_first(object, (const char *const[]){"q_lora_rank", NULL}, LLAMA_SIZE_MAX, 0, &out->query_latent));
    TRY(plan_read_size(object, "qk_nope_head_dim", LLAMA_SIZE_MAX, &out->head_width));
    TRY(plan_read_size(object, "qk_rope_head_dim", LLAMA_SIZE_MAX, &out->rope_width));
    return plan_read_size(object, "v_head_dim", LLAMA_SIZE_MAX, &out->value_width);
}

static int read_window(const struct strict_object *object, const struct type *type, struct llama_shape *out)
{
    bool uses = !type->window_off;
    if (type->window_off && has(object, "use_sliding_window"))
        TRY(strict_bool(object, "use_sliding_window", &uses));
    out->window_period = type->window_period;
    TRY(read_first(object, (const char *const[]){"sliding_window_pattern", NULL}, LLAMA_LAYERS_MAX, type->window_period,
                   &out->window_period));
    return uses ? read_first(object, (const char *const[]){"sliding_window", NULL}, LLAMA_SIZE_MAX, 0, &out->window)
                : ERR_NONE;
}

static int read_widths(const struct strict_object *object, struct llama_shape *out)
{
    TRY(plan_read_size(object, "num_hidden_layers", LLAMA_LAYERS_MAX, &out->blocks));
    TRY(plan_read_size(object, "hidden_size", LLAMA_SIZE_MAX, &out->width));
    TRY(plan_read_size(object, "num_attention_heads", LLAMA_SIZE_MAX, &out->heads));
    TRY(plan_read_size(object, "vocab_size", LLAMA_VOCABULARY_MAX, &out->vocabulary));
    TRY(plan_read_size(object, "max_position_embeddings", LLAMA_SIZE_MAX, &out->sequence_length));
    TRY(plan_read_size(object, "intermediate_size", LLAMA_SIZE_MAX, &out->hidden));
    TRY(read_first(object, (const char *const[]){"num_key_value_heads", NULL}, (int64_t)out->heads, out->heads,
                   &out->key_heads));
    return read_first(object, (const char *const[]){"head_dim", NULL}, LLAMA_SIZE_MAX, out->width / out->heads,
                      &out->head_width);
}

int plan_hugging_face_shape(const struct strict_object *object, struct llama_shape *out)
{
    const struct type *type;
    *out = (struct llama_shape){0};
    TRY(read_type(object, &type));
    if (json_array_size(json_object_get(object->value, "mlp_only_layers")) > 0)
        return strict_fail(object, "mlp_only_layers", "has blocks unlike the others, expected []");
    TRY(read_widths(object, out));
    TRY(read_experts(object, out));
    TRY(read_window(object, type, out));
    if (type->family == DEEPSEEK)
        TRY(read_latents(object, out));
    out->block_norms = type->block_norms;
    out->head_norms = type->head_norms;
    out->key_biases = type->key_biases;
    out->all_biases = out->sinks = type->family == GPT_OSS;
    // DeepSeek-V3 balances its experts by a bias.
    out->router_bias = type->family == GPT_OSS || strcmp(type->name, "deepseek_v3") == 0;
    out->tied_head = type->tied_head;
    return has(object, "tie_word_embeddings") ? strict_bool(object, "tie_word_embeddings", &out->tied_head) : ERR_NONE;
}
