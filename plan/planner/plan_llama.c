// SPDX-License-Identifier: Apache-2.0
// A block is x2 = x + wo(attention(wq(n), wk(n), wv(n))), n = norm(x); x' = x2 + down(silu(gate(m)) * up(m)),
// m = norm(x2); with experts, a router gives each token the MLPs of some of them. Working memory follows the
// reference's layout for a GPT (ref/model/gpt_pass.c): x, q, k, v, the attention's output, x2, gate and up of every
// block stay in fp32; scores exist for one head at a time.
#include "plan/planner/plan_llama.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

enum { ATTENTION_PARAMS = 6, MLP_PARAMS = 3, OTHER_PARAMS = 3 };

struct llama {
    struct model model;
    struct llama_shape shape;
    struct model_param *params;
    struct model_layer *layers;
    int *lists;
    char (*names)[24];
    size_t listed;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t query_width(const struct llama_shape *s)
{
    return s->heads * s->head_width;
}

static size_t key_width(const struct llama_shape *s)
{
    return s->key_heads * s->head_width;
}

// Of the MLPs that one token passes.
static size_t used_width(const struct llama_shape *s)
{
    return s->hidden * (s->experts > 0 ? s->experts_used : 1);
}

static double llama_layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    const struct llama_shape *s = model->shape;
    double rows = (double)(sequence_count * s->sequence_length), width = (double)s->width;
    double query = (double)query_width(s), key = (double)key_width(s);
    if (layer == 0)
        return 0;
    if (layer == model->layer_count - 1)
        return rows * 2.0 * (double)s->vocabulary * width;
    double attention = 2.0 * width * (2.0 * query + 2.0 * key) + 4.0 * (double)s->sequence_length * query;
    double mlp = 2.0 * 3.0 * width * (double)used_width(s) + 2.0 * width * (double)s->experts;
    return rows * (attention + mlp);
}

static size_t llama_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    const struct llama_shape *s = model->shape;
    size_t rows = sequence_count * s->sequence_length, largest_param = 0, largest_layer = 0, hidden = used_width(s);
    for (int layer = 0; layer < model->layer_count; layer++) {
        size_t count = 0;
        for (int i = 0; i < model->layers[layer].param_count; i++) {
            size_t param_count = model->params[model->layers[layer].params[i]].count;
            largest_param = larger(largest_param, param_count);
            count += param_count;
        }
        largest_layer = larger(largest_layer, count);
    }
    size_t block = rows * (2 * s->width + 2 * query_width(s) + 2 * key_width(s) + 2 * hidden + s->experts + 2);
    size_t total = checkpointing ? block : block * s->blocks + rows * s->width;
    total += rows * (1 + 2 * s->width + 2 * larger(hidden, query_width(s) + 2 * key_width(s)));
    total += 2 * s->sequence_length * s->sequence_length + larger(hidden, s->width);
    if (dtype == DTYPE_FP32)
        total += larger(rows * s->vocabulary, largest_param);
    else
        total += rows * s->vocabulary + largest_param + largest_layer;
    return total * sizeof(float);
}

static size_t llama_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    const struct llama_shape *s = model->shape;
    return layer > 0 ? sequence_count * s->sequence_length * s->width * sizeof(float) : 0;
}

static const struct model_operations llama_operations = {
    .layer_flops = llama_layer_flops,
    .run_bytes = llama_run_bytes,
    .checkpoint_bytes = llama_checkpoint_bytes,
};

static void use_param(struct llama *llama, int layer, int param)
{
    struct model_layer *of = &llama->layers[layer];
    llama->lists[llama->listed] = param;
    if (of->param_count++ == 0)
        of->params = &llama->lists[llama->listed];
    llama->listed++;
}

// rows 0: a vector.
static void add_param(struct llama *llama, int layer, const char *name, size_t rows, size_t columns)
{
    struct model_param *param = &llama->params[llama->model.param_count];
    snprintf(param->name, sizeof param->name, "%s.%s", llama->names[layer], name);
    param->shape_rank = rows ? 2 : 1;
    param->shape[0] = rows ? rows : columns;
    param->shape[1] = rows ? columns : 0;
    param->count = rows ? rows * columns : columns;
    param->used = true;
    param->first_layer = layer;
    param->layer_count = 1;
    param->frozen = llama->shape.lora_rank > 0;
    use_param(llama, layer, llama->model.param_count);
    llama->model.param_count++;
}

// A matrix of a block, and its adapter's two factors.
static void add_matrix(struct llama *llama, int layer, const char *name, size_t rows, size_t columns)
{
    size_t rank = llama->shape.lora_rank;
    char factor[64];
    add_param(llama, layer, name, rows, columns);
    for (int i = 0; i < 2 && rank > 0; i++) {
        snprintf(factor, sizeof factor, "%s.lora_%c", name, i == 0 ? 'A' : 'B');
        add_param(llama, layer, factor, i == 0 ? rank : rows, i == 0 ? columns : rank);
        llama->params[llama->model.param_count - 1].frozen = false;
    }
}

static void add_mlp(struct llama *llama, int layer, const char *prefix)
{
    const struct llama_shape *s = &llama->shape;
    char name[48];
    snprintf(name, sizeof name, "%sgate.weight", prefix);
    add_matrix(llama, layer, name, s->hidden, s->width);
    snprintf(name, sizeof name, "%sup.weight", prefix);
    add_matrix(llama, layer, name, s->hidden, s->width);
    snprintf(name, sizeof name, "%sdown.weight", prefix);
    add_matrix(llama, layer, name, s->width, s->hidden);
}

static void add_block(struct llama *llama, int layer)
{
    const struct llama_shape *s = &llama->shape;
    add_param(llama, layer, "attention_norm.weight", 0, s->width);
    add_matrix(llama, layer, "wq.weight", query_width(s), s->width);
    add_matrix(llama, layer, "wk.weight", key_width(s), s->width);
    add_matrix(llama, layer, "wv.weight", key_width(s), s->width);
    add_matrix(llama, layer, "wo.weight", s->width, query_width(s));
    add_param(llama, layer, "ffn_norm.weight", 0, s->width);
    if (s->experts == 0)
        add_mlp(llama, layer, "");
    else
        add_param(llama, layer, "router.weight", s->experts, s->width);
    for (size_t expert = 0; expert < s->experts; expert++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "experts.%zu.", expert);
        add_mlp(llama, layer, prefix);
    }
}

static void fill(struct llama *llama)
{
    const struct llama_shape *s = &llama->shape;
    int head = (int)s->blocks + 1;
    snprintf(llama->names[0], sizeof *llama->names, "embedding");
    add_param(llama, 0, "weight", s->vocabulary, s->width);
    for (int layer = 1; layer < head; layer++) {
        snprintf(llama->names[layer], sizeof *llama->names, "layers.%d", layer - 1);
        add_block(llama, layer);
    }
    snprintf(llama->names[head], sizeof *llama->names, "head");
    add_param(llama, head, "norm.weight", 0, s->width);
    if (s->tied_head) {
        use_param(llama, head, 0);
        llama->params[0].layer_count = 2;
    } else {
        add_param(llama, head, "output.weight", s->vocabulary, s->width);
    }
    for (int layer = 0; layer <= head; layer++)
        llama->layers[layer].name = llama->names[layer];
}

int plan_llama_make(const char *name, const struct llama_shape *shape, struct model **out)
{
    size_t mlps = shape->experts > 0 ? shape->experts : 1;
    size_t layers = shape->blocks + 2;
    size_t params =
        shape->blocks * (ATTENTION_PARAMS + 1 + mlps * MLP_PARAMS) * (shape->lora_rank > 0 ? 3 : 1) + OTHER_PARAMS;
    struct llama *llama = calloc(1, sizeof *llama);
    if (!llama)
        return err_set(ERR_MEMORY, "no memory for %s", name);
    llama->shape = *shape;
    llama->params = calloc(params, sizeof *llama->params);
    llama->layers = calloc(layers, sizeof *llama->layers);
    llama->lists = calloc(params, sizeof *llama->lists);
    llama->names = calloc(layers, sizeof *llama->names);
    if (!llama->params || !llama->layers || !llama->lists || !llama->names) {
        free(llama->params);
        free(llama->layers);
        free(llama->lists);
        free(llama->names);
        free(llama);
        return err_set(ERR_MEMORY, "no memory for %s", name);
    }
    llama->model = (struct model){.name = name,
                                  .params = llama->params,
                                  .layers = llama->layers,
                                  .layer_count = (int)layers,
                                  .group_count = 1,
                                  .sequence_length = shape->sequence_length,
                                  .operations = &llama_operations,
                                  .shape = &llama->shape};
    fill(llama);
    *out = &llama->model;
    return ERR_NONE;
}

bool plan_llama_transformer(const struct model *model, struct transformer *out)
{
    if (model->operations != &llama_operations)
        return false;
    const struct llama_shape *s = model->shape;
    *out = (struct transformer){
        .blocks = s->blocks,
        .width = s->width,
        .query_width = query_width(s),
        .key_width = key_width(s),
        .vocabulary = s->vocabulary,
        .sequence_length = s->sequence_length,
        .hidden = s->hidden,
        .mlp_matrices = MLP_PARAMS,
        .experts = s->experts > 0 ? s->experts : 1,
        .experts_used = s->experts > 0 ? s->experts_used : 1,
        .is_frozen = s->lora_rank > 0,
    };
    return true;
}
