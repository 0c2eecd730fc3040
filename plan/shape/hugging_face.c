// SPDX-License-Identifier: Apache-2.0
#include "plan/shape/hugging_face_internal.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH_MAX = 8 * DECODER_SIZE_MAX };

bool hugging_face_is(const struct strict_object *object)
{
    return json_object_get(object->value, "model_type");
}

// Adds the keys of "KEY=VALUE ..." that the file does not have, and names them if it should.
static void add_defaults(struct hugging_face_reader *reader, const char *defaults, bool notes)
{
    char text[256], *at = NULL;
    snprintf(text, sizeof text, "%s", defaults ? defaults : "");
    for (char *key = strtok_r(text, " ", &at); key; key = strtok_r(NULL, " ", &at)) {
        char *value = strchr(key, '=');
        *value++ = '\0';
        if (json_object_get(reader->object.value, key))
            continue;
        json_object_set_new((json_t *)(uintptr_t)reader->object.value, key,
                            strcmp(value, "true") == 0 ? json_true() : json_integer(atoll(value)));
        if (notes)
            hugging_face_note(reader, "%s is not in the file: %s, transformers' default for a %s", key, value,
                              reader->type->name);
    }
}

// Refuses the value of the first of these keys that the file has.
static int refuse_heads(struct hugging_face_reader *r, const char *keys, const char *what, size_t is, size_t whole)
{
    char key[64];
    for (;; keys += strcspn(keys, " ") + 1) {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(keys, " "), keys);
        if (hugging_face_has(r, key) || !strchr(keys, ' '))
            return strict_fail(&r->object, key, "is %zu, expected a divisor of %s, %zu", is, what, whole);
    }
}

static int read_widths(struct hugging_face_reader *r, struct decoder_shape *out)
{
    static const char heads[] = "num_attention_heads n_head n_heads num_heads",
                      lengths[] = "max_position_embeddings n_positions n_ctx max_seq_len seq_length",
                      hidden[] = "intermediate_size ffn_dim n_inner ffn_hidden_size",
                      key_heads[] = "num_key_value_heads num_kv_heads n_head_kv";
    TRY(hugging_face_size(r, "num_hidden_layers n_layer n_layers num_layers", DECODER_BLOCKS_MAX, 0, &out->blocks));
    TRY(hugging_face_size(r, "hidden_size n_embd n_embed d_model", DECODER_SIZE_MAX, 0, &out->width));
    TRY(hugging_face_size(r, "vocab_size", DECODER_VOCABULARY_MAX, 0, &out->vocabulary));
    TRY(hugging_face_size(r, lengths, DECODER_LENGTH_MAX, 0, &out->sequence_length));
    if (hugging_face_is_trait(r, "stateful")) {
        out->heads = out->key_heads = out->head_width = 1;
        return ERR_NONE;
    }
    TRY(hugging_face_size(r, heads, DECODER_SIZE_MAX, 0, &out->heads));
    TRY(hugging_face_size(r, hidden, DECODER_SIZE_MAX, out->mlp_matrices == 2 ? 4 * out->width : 0, &out->hidden));
    TRY(hugging_face_size(r, key_heads, (int64_t)out->heads, out->heads, &out->key_heads));
    size_t head_width = out->width / out->heads;
    if (out->key_heads > 0 && out->heads % out->key_heads > 0)
        return refuse_heads(r, key_heads, "the number of heads", out->key_heads, out->heads);
    if (out->width % out->heads > 0 && !hugging_face_has(r, "head_dim") && !hugging_face_has(r, "attention_head_dim") &&
        !hugging_face_has(r, "kv_lora_rank"))
        return refuse_heads(r, heads, "the width without a head_dim", out->heads, out->width);
    return hugging_face_size(r, "head_dim attention_head_dim", DECODER_SIZE_MAX, head_width > 0 ? head_width : 1,
                             &out->head_width);
}

static void set_biases(struct decoder_shape *out, const char *which)
{
    out->key_biases |= strchr(which, 'q') != NULL;
    out->output_bias |= strchr(which, 'o') != NULL;
    out->mlp_biases |= strchr(which, 'm') != NULL;
    out->expert_biases |= strchr(which, 'e') != NULL;
    out->head_bias |= strchr(which, 'h') != NULL;
    out->latent_biases |= strchr(which, 'l') != NULL;
}

static int read_bias_key(struct hugging_face_reader *r, const char *key, const char *which, struct decoder_shape *out)
{
    bool on = false;
    TRY(hugging_face_flag(r, key, &on));
    set_biases(out, on ? which : "");
    return ERR_NONE;
}

static int read_biases(struct hugging_face_reader *r, struct decoder_shape *out)
{
    char text[160], which[HUGGING_FACE_TRAIT_BYTES], *at = NULL;
    bool has_keys = false;
    hugging_face_trait(r, "biases", which);
    set_biases(out, which);
    snprintf(text, sizeof text, "%s", r->type->traits ? r->type->traits : "");
    for (char *word = strtok_r(text, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
        char *letters = strchr(word, '=');
        if (strncmp(word, "bias:", 5) != 0)
            continue;
        has_keys = true;
        if (letters)
            *letters++ = '\0';
        if (letters)
            TRY(read_bias_key(r, word + 5, letters, out));
    }
    if (!has_keys) {
        TRY(read_bias_key(r, "attention_bias", "qo", out));
        TRY(read_bias_key(r, "mlp_bias", "m", out));
    }
    return hugging_face_flag(r, "lm_head_bias", &out->head_bias);
}

static int read_norms(struct hugging_face_reader *r, struct decoder_shape *out)
{
    char norms[HUGGING_FACE_TRAIT_BYTES], key[HUGGING_FACE_TRAIT_BYTES];
    bool has = hugging_face_trait(r, "qk", norms), is_switched = hugging_face_trait(r, "switch", key);
    if (is_switched) {
        has = false;
        TRY(hugging_face_flag(r, key, &has));
    }
    out->block_norms = hugging_face_trait_number(r, "norms", 2);
    out->norm_vectors = hugging_face_is_trait(r, "no-weights") ? 0 : hugging_face_is_trait(r, "ln") ? 2 : 1;
    if (has)
        out->head_norms = strcmp(norms, "all") == 0 ? decoder_query_width(out) + decoder_key_width(out)
                                                    : 2 * out->head_width * (strcmp(norms, "head+bias") == 0 ? 2 : 1);
    return ERR_NONE;
}

// Keys that change the work in a way that plans have no form for.
static int note_work(struct hugging_face_reader *r)
{
    static const char *const dropouts[] = {"attention_dropout", "hidden_dropout", "resid_pdrop", "attn_pdrop",
                                           "embd_pdrop",        "dropout",        NULL};
    size_t predicted = 0, more = 0;
    for (const char *const *key = dropouts; *key; key++)
        if (hugging_face_has(r, *key) && json_number_value(json_object_get(r->object.value, *key)) > 0)
            hugging_face_note(r, "%s is above 0: dropout's masks are not counted", *key);
    if (hugging_face_has(r, "quantization_config"))
        hugging_face_note(r, "quantization_config is of the file's weights: a plan has the configuration's formats");
    TRY(hugging_face_count(r, "num_nextn_predict_layers", DECODER_BLOCKS_MAX, &predicted));
    TRY(hugging_face_count(r, "mtp_num_hidden_layers", DECODER_BLOCKS_MAX, &more));
    if (predicted + more > 0)
        hugging_face_note(r, "blocks for multi-token prediction are left out: %zu", predicted + more);
    return ERR_NONE;
}

// Products of sizes, each of which a file may give alone.
static int check_widths(struct hugging_face_reader *r, const struct decoder_shape *s)
{
    const struct {
        const char *name;
        size_t width;
    } widths[] = {{"queries", decoder_query_width(s)},
                  {"values", decoder_value_width(s)},
                  {"a state space", s->state.in_rows},
                  {"shared experts", s->shared_hidden}};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        if (widths[i].width > WIDTH_MAX)
            return strict_fail(&r->object, "", "has %zu channels of %s, expected at most %d", widths[i].width,
                               widths[i].name, WIDTH_MAX);
    return ERR_NONE;
}

static int read_shape(struct hugging_face_reader *r, struct decoder_shape *out)
{
    *out = (struct decoder_shape){.mlp_matrices = hugging_face_is_trait(r, "plain") ? 2 : 3,
                                  .router_bias = hugging_face_is_trait(r, "router"),
                                  .shared_gate = hugging_face_is_trait(r, "gate"),
                                  .is_parallel = hugging_face_is_trait(r, "parallel"),
                                  .embedding_norm = hugging_face_is_trait(r, "embedding-norm"),
                                  .sinks = hugging_face_is_trait(r, "sinks"),
                                  .mlp_values = hugging_face_is_trait(r, "values") ? 2 : 0};
    TRY(read_widths(r, out));
    out->positions = hugging_face_is_trait(r, "positions") ? out->sequence_length : 0;
    TRY(hugging_face_experts(r, out));
    TRY(hugging_face_layers(r, out));
    TRY(read_norms(r, out));
    TRY(read_biases(r, out));
    if (r->type->more)
        TRY(r->type->more(r, out));
    TRY(check_widths(r, out));
    TRY(hugging_face_flag(r, "tie_word_embeddings", &out->tied_head));
    return note_work(r);
}

// The text model of a file of text and images, and whether its head is tied where only the whole file says so.
static int find_text(const struct strict_object *object, struct strict_object *text)
{
    static const char *const keys[] = {"text_config", "llm_config", "language_config"};
    static const char tied[] = "tie_word_embeddings";
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_is_object(json_object_get(object->value, keys[i]))) {
            json_t *outer = json_object_get(object->value, tied);
            TRY(strict_object_of(object, keys[i], text));
            if (outer && !json_object_get(text->value, tied))
                json_object_set((json_t *)(uintptr_t)text->value, tied, outer);
            return ERR_NONE;
        }
    *text = *object;
    return ERR_NONE;
}

int hugging_face_read(const struct strict_object *object, struct decoder_shape *out,
                      char notes[HUGGING_FACE_NOTES_BYTES])
{
    struct hugging_face_reader reader = {.notes = notes};
    const char *name = "";
    notes[0] = '\0';
    TRY(find_text(object, &reader.object));
    TRY(strict_text(&reader.object, "model_type", &name));
    reader.type = hugging_face_type_find(name);
    if (!reader.type)
        return strict_fail(&reader.object, "model_type",
                           "is \"%.40s\", which is not read: datasets/README.md lists the types that are", name);
    reader.used = json_object();
    bool is_inner = reader.object.value != object->value;
    add_defaults(&reader, reader.type->defaults, false);
    if (is_inner)
        add_defaults(&reader, reader.type->sizes, true);
    int code = read_shape(&reader, out);
    if (code == ERR_NONE)
        hugging_face_note_keys(&reader, is_inner ? object : NULL);
    json_decref(reader.used);
    return code;
}

const char *hugging_face_dtype(const struct strict_object *object)
{
    static const char *const dtypes[][2] = {{"float32", "fp32"}, {"float16", "fp16"}, {"bfloat16", "bf16"}};
    struct strict_object text;
    const json_t *value = NULL;
    if (find_text(object, &text) != ERR_NONE)
        return NULL;
    for (const char *const *key = (const char *const[]){"dtype", "torch_dtype", NULL}; *key; key++) {
        value = value ? value : json_object_get(object->value, *key);
        value = value ? value : json_object_get(text.value, *key);
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (json_is_string(value) && strcmp(json_string_value(value), dtypes[i][0]) == 0)
            return dtypes[i][1];
    return NULL;
}
