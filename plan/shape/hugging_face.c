// SPDX-License-Identifier: Apache-2.0
#include "plan/shape/hugging_face.h"

#include "base/err.h"

#include <string.h>

bool hugging_face_is(const struct strict_object *object)
{
    return json_object_get(object->value, "model_type");
}

static bool has(const struct strict_object *object, const char *key)
{
    const json_t *value = json_object_get(object->value, key);
    return value && !json_is_null(value);
}

int shape_read_size(const struct strict_object *object, const char *key, int64_t high, size_t *out)
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
            return shape_read_size(object, *keys, high, out);
    return ERR_NONE;
}

// Leaves *out as it is without the key.
static int read_flag(const struct strict_object *object, const char *key, bool *out)
{
    return has(object, key) ? strict_bool(object, key, out) : ERR_NONE;
}

enum family { LLAMA, DEEPSEEK, GPT_OSS };

// A type's code adds these to Llama's blocks; its file does not say so.
struct type {
    const char *name;
    enum family family;
    size_t block_norms;    // 0: 2
    size_t window_period;  // of the sliding window, 0: every block has it
    bool head_norms, key_biases, tied_head, router_bias;
    bool window_off;                                 // only with use_sliding_window
    bool no_output_bias;                             // attention_bias is of queries, keys and values alone
    size_t vocabulary, sequence_length, head_width;  // where the file has none; 0: it must, or the width over the heads
};

static const struct type types[] = {
    {.name = "llama"},
    {.name = "mistral"},
    {.name = "mixtral"},
    {.name = "qwen2", .key_biases = true, .window_off = true},
    {.name = "qwen3", .head_norms = true, .window_off = true},
    {.name = "qwen3_moe", .head_norms = true, .window_off = true},
    {.name = "gpt_oss", .family = GPT_OSS, .window_period = 2, .router_bias = true},
    {.name = "phi3"},
    {.name = "olmo2"},
    {.name = "granite"},
    {.name = "glm4_moe", .router_bias = true, .no_output_bias = true},
    {.name = "deepseek_v2", .family = DEEPSEEK},
    // These balance their experts by a bias.
    {.name = "deepseek_v3", .family = DEEPSEEK, .router_bias = true},
    {.name = "kimi_k2", .family = DEEPSEEK, .router_bias = true},
    {.name = "gemma", .tied_head = true, .head_width = 256},
    {.name = "gemma2", .block_norms = 4, .window_period = 2, .tied_head = true, .head_width = 256},
    {.name = "gemma3_text",
     .block_norms = 4,
     .window_period = 6,
     .head_norms = true,
     .tied_head = true,
     .head_width = 256,
     .vocabulary = 262208,
     .sequence_length = 131072},
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

static int read_experts(const struct strict_object *object, struct decoder_shape *out)
{
    static const char *const expert_keys[] = {"num_local_experts", "num_experts", "n_routed_experts", NULL};
    static const char *const hidden_keys[] = {"moe_intermediate_size", "intermediate_size", NULL};
    size_t shared;
    TRY(read_first(object, expert_keys, DECODER_EXPERTS_MAX, 0, &out->experts));
    if (out->experts == 0)
        return ERR_NONE;
    size_t dense = 0;
    TRY(shape_read_size(object, "num_experts_per_tok", (int64_t)out->experts, &out->experts_used));
    TRY(read_first(object, hidden_keys, DECODER_SIZE_MAX, 0, &out->expert_hidden));
    TRY(read_first(object, (const char *const[]){"n_shared_experts", NULL}, DECODER_EXPERTS_MAX, 0, &shared));
    out->shared_hidden = shared * out->expert_hidden;
    if (has(object, "first_k_dense_replace"))
        TRY(strict_size(object, "first_k_dense_replace", (int64_t)out->blocks, &dense));
    for (size_t i = dense; i < out->blocks; i++)
        out->block[i].mlp = DECODER_MLP_EXPERTS;
    return ERR_NONE;
}

static int read_latents(const struct strict_object *object, struct decoder_shape *out)
{
    TRY(shape_read_size(object, "kv_lora_rank", DECODER_SIZE_MAX, &out->key_latent));
    TRY(read_first(object, (const char *const[]){"q_lora_rank", NULL}, DECODER_SIZE_MAX, 0, &out->query_latent));
    TRY(shape_read_size(object, "qk_nope_head_dim", DECODER_SIZE_MAX, &out->head_width));
    TRY(shape_read_size(object, "qk_rope_head_dim", DECODER_SIZE_MAX, &out->rope_width));
    return shape_read_size(object, "v_head_dim", DECODER_SIZE_MAX, &out->value_width);
}

static int read_window(const struct strict_object *object, const struct type *type, struct decoder_shape *out)
{
    bool uses = !type->window_off;
    size_t period, window;
    if (type->window_off)
        TRY(read_flag(object, "use_sliding_window", &uses));
    TRY(read_first(object, (const char *const[]){"sliding_window_pattern", NULL}, DECODER_BLOCKS_MAX,
                   type->window_period, &period));
    TRY(read_first(object, (const char *const[]){"sliding_window", NULL}, DECODER_SIZE_MAX, 0, &window));
    for (size_t i = 0; uses && i < out->blocks; i++)
        out->block[i].window = period > 0 && (i + 1) % period == 0 ? 0 : window;
    return ERR_NONE;
}

// Reads a size that a type may have without it.
static int read_or(const struct strict_object *object, const char *key, int64_t high, size_t without, size_t *out)
{
    return without > 0 ? read_first(object, (const char *const[]){key, NULL}, high, without, out)
                       : shape_read_size(object, key, high, out);
}

static int read_widths(const struct strict_object *object, const struct type *type, struct decoder_shape *out)
{
    TRY(shape_read_size(object, "num_hidden_layers", DECODER_BLOCKS_MAX, &out->blocks));
    TRY(shape_read_size(object, "hidden_size", DECODER_SIZE_MAX, &out->width));
    TRY(shape_read_size(object, "num_attention_heads", DECODER_SIZE_MAX, &out->heads));
    TRY(read_or(object, "vocab_size", DECODER_VOCABULARY_MAX, type->vocabulary, &out->vocabulary));
    TRY(read_or(object, "max_position_embeddings", DECODER_SIZE_MAX, type->sequence_length, &out->sequence_length));
    TRY(shape_read_size(object, "intermediate_size", DECODER_SIZE_MAX, &out->hidden));
    TRY(read_or(object, "num_key_value_heads", (int64_t)out->heads, out->heads, &out->key_heads));
    return read_first(object, (const char *const[]){"head_dim", NULL}, DECODER_SIZE_MAX,
                      type->head_width > 0 ? type->head_width : out->width / out->heads, &out->head_width);
}

static int read_biases(const struct strict_object *object, const struct type *type, struct decoder_shape *out)
{
    bool of_attention = type->family == GPT_OSS, of_mlp = type->family == GPT_OSS;
    TRY(read_flag(object, "attention_bias", &of_attention));
    TRY(read_flag(object, "mlp_bias", &of_mlp));
    if (of_attention && type->family == DEEPSEEK)
        return strict_fail(object, "attention_bias", "is true, expected false of a %s", type->name);
    out->key_biases = type->key_biases || of_attention;
    out->output_bias = of_attention && !type->no_output_bias;
    out->mlp_biases = out->expert_biases = of_mlp;
    return ERR_NONE;
}

static int read_shape(const struct strict_object *object, struct decoder_shape *out)
{
    const struct type *type;
    *out = (struct decoder_shape){0};
    TRY(read_type(object, &type));
    if (json_array_size(json_object_get(object->value, "mlp_only_layers")) > 0)
        return strict_fail(object, "mlp_only_layers", "has blocks unlike the others, expected []");
    TRY(read_widths(object, type, out));
    TRY(read_experts(object, out));
    TRY(read_window(object, type, out));
    TRY(read_biases(object, type, out));
    if (type->family == DEEPSEEK)
        TRY(read_latents(object, out));
    bool head_norms = type->head_norms;
    out->block_norms = type->block_norms > 0 ? type->block_norms : 2;
    out->norm_vectors = 1;
    out->mlp_matrices = 3;
    TRY(read_flag(object, "use_qk_norm", &head_norms));
    out->head_norms = head_norms ? 2 * out->head_width : 0;
    out->sinks = type->family == GPT_OSS;
    out->router_bias = type->router_bias;
    out->tied_head = type->tied_head;
    return read_flag(object, "tie_word_embeddings", &out->tied_head);
}

int hugging_face_read(const struct strict_object *object, struct decoder_shape *out)
{
    struct strict_object text;
    if (!has(object, "text_config"))
        return read_shape(object, out);
    TRY(strict_object_of(object, "text_config", &text));
    return read_shape(&text, out);
}

const char *hugging_face_dtype(const struct strict_object *object)
{
    static const char *const dtypes[][2] = {{"float32", "fp32"}, {"float16", "fp16"}, {"bfloat16", "bf16"}};
    const json_t *text = json_object_get(object->value, "text_config"), *value = NULL;
    for (const char *const *key = (const char *const[]){"dtype", "torch_dtype", NULL}; *key; key++) {
        value = value ? value : json_object_get(object->value, *key);
        value = value ? value : json_object_get(text, *key);
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (json_is_string(value) && strcmp(json_string_value(value), dtypes[i][0]) == 0)
            return dtypes[i][1];
    return NULL;
}
