// SPDX-License-Identifier: Apache-2.0
// A block is x2 = x + wo(attention(wq(n), wk(n), wv(n))), n = norm(x); x' = x2 + down(silu(gate(m)) * up(m)),
// m = norm(x2); with experts, a router gives each token the MLPs of some of them.
#include "plan/planner/plan_llama.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

// The most parameters of a block without its MLPs, of an MLP with its bias, and of the model without its blocks.
enum { BLOCK_PARAMS = 14, MLP_PARAMS = LLAMA_MLP_MATRICES + 1, OTHER_PARAMS = 3 };

struct llama {
    struct model model;
    struct llama_shape shape;
    struct model_param *params;
    struct model_layer *layers;
    int *lists;
    char (*names)[24];
    size_t listed;
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
    char full_name[MODEL_NAME_BYTES];
    snprintf(full_name, sizeof full_name, "%s.%s", llama->names[layer], name);
    model_param_set(param, full_name, rows, columns, layer);
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

// The biases of a block's matrices are one vector here, as their sizes alone matter.
static void add_mlp(struct llama *llama, int layer, const char *prefix, size_t hidden)
{
    const struct llama_shape *s = &llama->shape;
    char name[48];
    snprintf(name, sizeof name, "%sgate.weight", prefix);
    add_matrix(llama, layer, name, hidden, s->width);
    snprintf(name, sizeof name, "%sup.weight", prefix);
    add_matrix(llama, layer, name, hidden, s->width);
    snprintf(name, sizeof name, "%sdown.weight", prefix);
    add_matrix(llama, layer, name, s->width, hidden);
    snprintf(name, sizeof name, "%sbias", prefix);
    if (s->mlp_biases)
        add_param(llama, layer, name, 0, 2 * hidden + s->width);
}

// Projections to the latent vectors, their norms, and from there to all heads.
static void add_latent_attention(struct llama *llama, int layer)
{
    const struct llama_shape *s = &llama->shape;
    if (s->query_latent > 0) {
        add_matrix(llama, layer, "wq_a.weight", s->query_latent, s->width);
        add_param(llama, layer, "q_norm.weight", 0, s->query_latent);
        add_matrix(llama, layer, "wq_b.weight", llama_query_width(s), s->query_latent);
    } else {
        add_matrix(llama, layer, "wq.weight", llama_query_width(s), s->width);
    }
    add_matrix(llama, layer, "wkv_a.weight", s->key_latent + s->rope_width, s->width);
    add_param(llama, layer, "kv_norm.weight", 0, s->key_latent);
    add_matrix(llama, layer, "wkv_b.weight", s->heads * (s->head_width + s->value_width), s->key_latent);
}

static void add_attention(struct llama *llama, int layer)
{
    const struct llama_shape *s = &llama->shape;
    size_t key = llama_key_width(s), biases = s->key_biases ? llama_query_width(s) + 2 * key : 0;
    if (s->key_latent > 0) {
        add_latent_attention(llama, layer);
    } else {
        add_matrix(llama, layer, "wq.weight", llama_query_width(s), s->width);
        add_matrix(llama, layer, "wk.weight", key, s->width);
        add_matrix(llama, layer, "wv.weight", key, s->width);
    }
    add_matrix(llama, layer, "wo.weight", s->width, llama_output_width(s));
    biases += s->output_bias ? s->width : 0;
    if (biases > 0)
        add_param(llama, layer, "attention.bias", 0, biases);
    if (s->head_norms)
        add_param(llama, layer, "head_norms.weight", 0, 2 * s->head_width);
    if (s->sinks)
        add_param(llama, layer, "sinks", 0, s->heads);
}

static void add_block(struct llama *llama, int layer)
{
    const struct llama_shape *s = &llama->shape;
    size_t norms = s->block_norms > 0 ? s->block_norms : 2;
    add_param(llama, layer, "attention_norm.weight", 0, s->width);
    add_attention(llama, layer);
    add_param(llama, layer, "ffn_norm.weight", 0, (norms - 1) * s->width);
    if (llama_is_dense(s, (size_t)layer - 1)) {
        add_mlp(llama, layer, "", llama_used_width(s, (size_t)layer - 1));
        return;
    }
    add_param(llama, layer, "router.weight", s->experts, s->width);
    if (s->router_bias)
        add_param(llama, layer, "router.bias", 0, s->experts);
    if (s->shared_hidden > 0)
        add_mlp(llama, layer, "shared.", s->shared_hidden);
    for (size_t expert = 0; expert < s->experts; expert++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "experts.%zu.", expert);
        add_mlp(llama, layer, prefix, s->hidden);
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
    size_t mlps = shape->experts > 0 ? shape->experts + 1 : 1;
    size_t layers = shape->blocks + 2;
    size_t params = shape->blocks * (BLOCK_PARAMS + mlps * MLP_PARAMS) * (shape->lora_rank > 0 ? 3 : 1) + OTHER_PARAMS;
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
