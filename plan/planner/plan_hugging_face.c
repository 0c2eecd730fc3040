// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_hugging_face.h"

#include "base/err.h"

enum { LARGEST = 1 << 24 };

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
static int read_first(const struct strict_object *object, const char *const keys[], size_t without, size_t *out)
{
    *out = without;
    for (; *keys; keys++)
        if (has(object, *keys)) {
            TRY(strict_size(object, *keys, LARGEST, out));
            return *out > 0 ? ERR_NONE : strict_fail(object, *keys, "is 0, expected at least 1");
        }
    return ERR_NONE;
}

static int read_size(const struct strict_object *object, const char *key, size_t *out)
{
    TRY(strict_size(object, key, LARGEST, out));
    return *out > 0 ? ERR_NONE : strict_fail(object, key, "is 0, expected at least 1");
}

int plan_hugging_face_shape(const struct strict_object *object, struct llama_shape *out)
{
    static const char *const others[] = {"kv_lora_rank", "n_embd", "text_config", NULL};
    static const char *const expert_keys[] = {"num_local_experts", "num_experts", NULL};
    static const char *const hidden_keys[] = {"moe_intermediate_size", "intermediate_size", NULL};
    *out = (struct llama_shape){0};
    for (const char *const *key = others; *key; key++)
        if (has(object, *key))
            return strict_fail(object, *key, "belongs to a model that is not of the Llama family");
    TRY(read_size(object, "num_hidden_layers", &out->blocks));
    TRY(read_size(object, "hidden_size", &out->width));
    TRY(read_size(object, "num_attention_heads", &out->heads));
    TRY(read_size(object, "vocab_size", &out->vocabulary));
    TRY(read_size(object, "max_position_embeddings", &out->sequence_length));
    TRY(read_size(object, "intermediate_size", &out->hidden));
    TRY(read_first(object, (const char *const[]){"num_key_value_heads", NULL}, out->heads, &out->key_heads));
    TRY(read_first(object, (const char *const[]){"head_dim", NULL}, out->width / out->heads, &out->head_width));
    TRY(read_first(object, expert_keys, 0, &out->experts));
    if (out->experts > 0) {
        TRY(read_size(object, "num_experts_per_tok", &out->experts_used));
        TRY(read_first(object, hidden_keys, 0, &out->hidden));
    }
    return has(object, "tie_word_embeddings") ? strict_bool(object, "tie_word_embeddings", &out->tied_head) : ERR_NONE;
}
