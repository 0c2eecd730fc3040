// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_hugging_face.h"

#include "base/err.h"

bool plan_is_hugging_face(const struct strict_object *object)
{
    return json_object_get(object->value, "model_type");
}

static bool has(const struct strict_object *object, const char *key)
{
    const json_t *value = json_object_get(object->value, key);
    return value && !json_is_null(value);
}

// Reads the first of the keys, ended by NULL, that is there; `without` if none is.
static int read_first(const struct strict_object *object, const char *const keys[], int64_t high, size_t without,
                      size_t *out)
{
    *out = without;
    for (; *keys; keys++)
        if (has(object, *keys)) {
            TRY(strict_size(object, *keys, high, out));
            return *out > 0 ? ERR_NONE : strict_fail(object, *keys, "is 0, expected at least 1");
        }
    return ERR_NONE;
}

static int read_size(const struct strict_object *object, const char *key, int64_t high, size_t *out)
{
    TRY(strict_size(object, key, high, out));
    return *out > 0 ? ERR_NONE : strict_fail(object, key, "is 0, expected at least 1");
}

int plan_hugging_face_shape(const struct strict_object *object, struct llama_shape *out)
{
    // Types whose blocks are Llama's, and whose head is not tied where the file does not say so.
    static const char *const types[] = {"llama",   "mistral", "mixtral", "qwen2",   "qwen3", "qwen3_moe",
                                        "gpt_oss", "phi3",    "olmo2",   "granite", NULL};
    static const char *const expert_keys[] = {"num_local_experts", "num_experts", NULL};
    static const char *const hidden_keys[] = {"moe_intermediate_size", "intermediate_size", NULL};
    int type;
    *out = (struct llama_shape){0};
    TRY(strict_word(object, "model_type", types, &type));
    if (json_array_size(json_object_get(object->value, "mlp_only_layers")) > 0)
        return strict_fail(object, "mlp_only_layers", "has blocks unlike the others, expected []");
    TRY(read_size(object, "num_hidden_layers", LLAMA_LAYERS_MAX, &out->blocks));
    TRY(read_size(object, "hidden_size", LLAMA_SIZE_MAX, &out->width));
    TRY(read_size(object, "num_attention_heads", LLAMA_SIZE_MAX, &out->heads));
    TRY(read_size(object, "vocab_size", LLAMA_VOCABULARY_MAX, &out->vocabulary));
    TRY(read_size(object, "max_position_embeddings", LLAMA_SIZE_MAX, &out->sequence_length));
    TRY(read_size(object, "intermediate_size", LLAMA_SIZE_MAX, &out->hidden));
    TRY(read_first(object, (const char *const[]){"num_key_value_heads", NULL}, (int64_t)out->heads, out->heads,
                   &out->key_heads));
    TRY(read_first(object, (const char *const[]){"head_dim", NULL}, LLAMA_SIZE_MAX, out->width / out->heads,
                   &out->head_width));
    TRY(read_first(object, expert_keys, LLAMA_EXPERTS_MAX, 0, &out->experts));
    if (out->experts > 0) {
        TRY(read_size(object, "num_experts_per_tok", (int64_t)out->experts, &out->experts_used));
        TRY(read_first(object, hidden_keys, LLAMA_SIZE_MAX, 0, &out->hidden));
    }
    return has(object, "tie_word_embeddings") ? strict_bool(object, "tie_word_embeddings", &out->tied_head) : ERR_NONE;
}
