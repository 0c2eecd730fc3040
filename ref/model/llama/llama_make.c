// SPDX-License-Identifier: Apache-2.0
// A Llama's description: its sizes by name, its parameters and its layers.
#include "ref/model/llama/llama_pass.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"
#include "ref/model/model_kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 1000, SIZE_MOST = 1 << 18 };

static const struct {
    const char *name;
    struct llama_sizes sizes;
} known[] = {
    {"llama-tiny", {4, 64, 4, 2, 172, 256, 64}},
    {"llama-160m", {12, 768, 12, 12, 3072, 32000, 1024}},
};
enum { KNOWN_COUNT = sizeof known / sizeof *known };

static const struct model_key keys[] = {
    {"layers", offsetof(struct llama_sizes, layers)}, {"width", offsetof(struct llama_sizes, width)},
    {"heads", offsetof(struct llama_sizes, heads)},   {"kv_heads", offsetof(struct llama_sizes, kv_heads)},
    {"hidden", offsetof(struct llama_sizes, hidden)}, {"vocabulary", offsetof(struct llama_sizes, vocabulary)},
    {"length", offsetof(struct llama_sizes, length)},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

size_t llama_head_width(const struct llama_sizes *sizes)
{
    return sizes->width / sizes->heads;
}

size_t llama_kv_width(const struct llama_sizes *sizes)
{
    return sizes->kv_heads * llama_head_width(sizes);
}

// 2 operations for each element of a matrix and each row, and 4 x length x width per row for attention.
static double layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    const struct llama_sizes *sizes = llama_sizes_of(model);
    double rows = (double)(sequence_count * sizes->length), width = (double)sizes->width;
    if (layer == 0)
        return 0;
    if (layer + 1 == model->layer_count)
        return rows * 2.0 * (double)sizes->vocabulary * width;
    double matrices = 2.0 * width * (width + (double)llama_kv_width(sizes)) + 3.0 * width * (double)sizes->hidden;
    return rows * (2.0 * matrices + 4.0 * (double)sizes->length * width);
}

// Normal values with transformers' deviation, 0.02; norms 1.
static int initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    const struct model_param *p = &model->params[param];
    uint64_t key = random_key(seed, (uint64_t)param);
    for (size_t i = 0; i < p->count; i++)
        out[i] = p->shape_rank == 2 ? 0.02f * random_normal(random_at(key, i)) : 1.0f;
    return ERR_NONE;
}

static const struct model_operations operations = {
    .initialise = initialise,
    .layer_flops = layer_flops,
    .run_bytes = llama_run_bytes,
    .checkpoint_bytes = llama_checkpoint_bytes,
    .forward = llama_forward,
    .backward = llama_backward,
    .multiplies_matrices = true,
};

const struct llama_sizes *llama_sizes_of(const struct model *model)
{
    return model->operations == &operations ? &((const struct llama *)model->shape)->sizes : NULL;
}

// Appends a parameter to the last layer so far. rows 0: a vector.
static void add_param(struct llama *llama, const char *name, size_t rows, size_t columns)
{
    int layer = llama->model.layer_count - 1, param = llama->model.param_count++;
    struct model_layer *to = &llama->layers[layer];
    model_param_set(&llama->params[param], name, rows, columns, layer);
    llama->layer_params[param] = param;
    if (to->param_count++ == 0)
        to->params = &llama->layer_params[param];
}

static void add_layer(struct llama *llama, const char *name)
{
    int layer = llama->model.layer_count++;
    snprintf(llama->layer_names[layer], sizeof *llama->layer_names, "%s", name);
    llama->layers[layer].name = llama->layer_names[layer];
}

static void add_block(struct llama *llama, size_t block)
{
    const struct llama_sizes *s = &llama->sizes;
    const struct {
        const char *name;
        size_t rows, columns;
    } params[BLOCK_PARAMS] = {
        [Q_WEIGHT] = {"self_attn.q_proj", s->width, s->width},
        [K_WEIGHT] = {"self_attn.k_proj", llama_kv_width(s), s->width},
        [V_WEIGHT] = {"self_attn.v_proj", llama_kv_width(s), s->width},
        [O_WEIGHT] = {"self_attn.o_proj", s->width, s->width},
        [GATE_WEIGHT] = {"mlp.gate_proj", s->hidden, s->width},
        [UP_WEIGHT] = {"mlp.up_proj", s->hidden, s->width},
        [DOWN_WEIGHT] = {"mlp.down_proj", s->width, s->hidden},
        [NORM_1_WEIGHT] = {"input_layernorm", 0, s->width},
        [NORM_2_WEIGHT] = {"post_attention_layernorm", 0, s->width},
    };
    char name[MODEL_NAME_BYTES], layer_name[sizeof *llama->layer_names];
    snprintf(layer_name, sizeof layer_name, "layers.%zu", block);
    add_layer(llama, layer_name);
    for (int i = 0; i < BLOCK_PARAMS; i++) {
        snprintf(name, sizeof name, "model.layers.%zu.%s.weight", block, params[i].name);
        add_param(llama, name, params[i].rows, params[i].columns);
    }
}

static void fill(struct llama *llama)
{
    const struct llama_sizes *s = &llama->sizes;
    add_layer(llama, "embedding");
    add_param(llama, "model.embed_tokens.weight", s->vocabulary, s->width);
    for (size_t block = 0; block < s->layers; block++)
        add_block(llama, block);
    add_layer(llama, "head");
    add_param(llama, "model.norm.weight", 0, s->width);
    add_param(llama, "lm_head.weight", s->vocabulary, s->width);
    rotary_fill(s->length, llama_head_width(s), llama->cosines, llama->sines);
}

static int check(const char *name, const struct llama_sizes *s)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        size_t size = *(const size_t *)(const void *)((const char *)s + keys[i].at);
        if (size == 0 || size > SIZE_MOST)
            return err_set(ERR_USAGE, "%s: %s is %zu, expected 1 to %d", name, keys[i].name, size, SIZE_MOST);
    }
    if (s->layers > LAYERS_MAX || s->vocabulary > UINT16_MAX + 1)
        return err_set(ERR_USAGE, "%s is too large: expected at most %d layers and a vocabulary of at most %d", name,
                       LAYERS_MAX, UINT16_MAX + 1);
    if (s->width % (2 * s->heads) != 0)
        return err_set(ERR_USAGE,
                       "%s: a width of %zu in %zu heads: expected an even width of each head, for rotary positions",
                       name, s->width, s->heads);
    if (s->heads % s->kv_heads != 0)
        return err_set(ERR_USAGE, "%s: %zu heads cannot share %zu kv_heads evenly: expected a divisor", name, s->heads,
                       s->kv_heads);
    return ERR_NONE;
}

int llama_make(const char *name, const struct llama_sizes *sizes, struct model **out)
{
    TRY(check(name, sizes));
    size_t params = 3 + sizes->layers * BLOCK_PARAMS, layers = 2 + sizes->layers;
    size_t turns = sizes->length * (llama_head_width(sizes) / 2);
    struct llama *llama = calloc(1, sizeof *llama);
    if (!llama)
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    llama->sizes = *sizes;
    llama->params = calloc(params, sizeof *llama->params);
    llama->layers = calloc(layers, sizeof *llama->layers);
    llama->layer_params = calloc(params, sizeof *llama->layer_params);
    llama->layer_names = calloc(layers, sizeof *llama->layer_names);
    llama->cosines = calloc(2 * turns, sizeof *llama->cosines);
    snprintf(llama->name, sizeof llama->name, "%s", name);
    llama->model = (struct model){.name = llama->name,
                                  .params = llama->params,
                                  .layers = llama->layers,
                                  .group_count = 1,
                                  .sequence_length = sizes->length,
                                  .wants_text = true,
                                  .on_host = true,
                                  .operations = &operations,
                                  .shape = llama};
    if (!llama->params || !llama->layers || !llama->layer_params || !llama->layer_names || !llama->cosines) {
        llama_free(&llama->model);
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    }
    llama->sines = llama->cosines + turns;
    fill(llama);
    *out = &llama->model;
    return ERR_NONE;
}

void llama_free(struct model *model)
{
    struct llama *llama = model ? (struct llama *)(uintptr_t)model->shape : NULL;
    if (!llama)
        return;
    free(llama->params);
    free(llama->layers);
    free(llama->layer_params);
    free(llama->layer_names);
    free(llama->cosines);
    free(llama);
}

const char *llama_name(int index)
{
    return index >= 0 && index < KNOWN_COUNT ? known[index].name : NULL;
}

// The sizes of the name before the colon, or NULL.
static const struct llama_sizes *base_of(const char *name)
{
    size_t length = strcspn(name, ":");
    for (int i = 0; i < KNOWN_COUNT; i++)
        if (strlen(known[i].name) == length && strncmp(known[i].name, name, length) == 0)
            return &known[i].sizes;
    return length == 5 && strncmp(name, "llama", 5) == 0 ? &known[0].sizes : NULL;
}

bool llama_is_name(const char *name)
{
    return base_of(name) != NULL;
}

// Parses one KEY=NUMBER of `length` characters; *seen has a bit for each key given so far.
static int parse_key(const char *name, const char *text, size_t length, unsigned *seen, struct llama_sizes *sizes)
{
    bool known_key;
    TRY(model_key_parse(name, text, length, keys, KEY_COUNT, seen, sizes, &known_key));
    if (known_key)
        return ERR_NONE;
    return err_set(ERR_USAGE,
                   "model %s: a Llama has no '%.*s': expected KEY=NUMBER,... with keys of layers, width, heads, "
                   "kv_heads, hidden, vocabulary, length; tiles, blocks, experts and adapters belong to GPTs",
                   name, (int)strcspn(text, "=,"), text);
}

static int make(const char *name, struct model **out)
{
    struct llama_sizes sizes = *base_of(name);
    unsigned seen = 0;
    for (const char *text = strchr(name, ':'); text;) {
        size_t length = strcspn(++text, ",");
        TRY(parse_key(name, text, length, &seen, &sizes));
        text = text[length] ? text + length : NULL;
    }
    return llama_make(name, &sizes, out);
}

int llama_find(const char *name, const struct model **out)
{
    if (strlen(name) >= MODEL_NAME_BYTES)
        return err_set(ERR_USAGE, "the model name %.40s... is too long: expected at most %d characters", name,
                       MODEL_NAME_BYTES - 1);
    return model_kept(name, make, out);
}
