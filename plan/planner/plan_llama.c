// SPDX-License-Identifier: Apache-2.0
// A block is x2 = x + wo(attention(wq(n), wk(n), wv(n))), n = norm(x); x' = x2 + down(silu(gate(m)) * up(m)),
// m = norm(x2); with experts, a router gives each token the MLPs of some of them. Working memory is counted as the
// reference lays out that of a GPT (ref/model/gpt_pass.c): x, q, k, v, the attention's output, x2, gate and up of every
// block are kept, in fp32; scores are those of one head.
#include "plan/planner/plan_llama.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

enum { ATTENTION_PARAMS = 6, MLP_PARAMS = 3, OTHER_PARAMS = 3 };

struct llama {
    struct model model;
    struct llama_shape shape;
    struct model_param *params;
    struct model_unit *units;
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

static double llama_unit_flops(const struct model *model, int unit, size_t sequence_count)
{
    const struct llama_shape *s = model->shape;
    double rows = (double)(sequence_count * s->sequence_length), width = (double)s->width;
    double query = (double)query_width(s), key = (double)key_width(s);
    if (unit == 0)
        return 0;
    if (unit == model->unit_count - 1)
        return rows * 2.0 * (double)s->vocabulary * width;
    double attention = 2.0 * width * (2.0 * query + 2.0 * key) + 4.0 * (double)s->sequence_length * query;
    double mlp = 2.0 * 3.0 * width * (double)used_width(s) + 2.0 * width * (double)s->experts;
    return rows * (attention + mlp);
}

static size_t llama_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    const struct llama_shape *s = model->shape;
    size_t rows = sequence_count * s->sequence_length, largest_param = 0, largest_unit = 0, hidden = used_width(s);
    for (int unit = 0; unit < model->unit_count; unit++) {
        size_t count = 0;
        for (int i = 0; i < model->units[unit].param_count; i++) {
            size_t param_count = model->params[model->units[unit].params[i]].count;
            largest_param = larger(largest_param, param_count);
            count += param_count;
        }
        largest_unit = larger(largest_unit, count);
    }
    size_t block = rows * (2 * s->width + 2 * query_width(s) + 2 * key_width(s) + 2 * hidden + s->experts + 2);
    size_t total = checkpointing ? block : block * s->layers + rows * s->width;
    total += rows * (1 + 2 * s->width + 2 * larger(hidden, query_width(s) + 2 * key_width(s)));
    total += 2 * s->sequence_length * s->sequence_length + larger(hidden, s->width);
    if (dtype == DTYPE_FP32)
        total += larger(rows * s->vocabulary, largest_param);
    else
        total += rows * s->vocabulary + largest_param + largest_unit;
    return total * sizeof(float);
}

static size_t llama_checkpoint_bytes(const struct model *model, int unit, size_t sequence_count)
{
    const struct llama_shape *s = model->shape;
    return unit > 0 ? sequence_count * s->sequence_length * s->width * sizeof(float) : 0;
}

static const struct model_operations llama_operations = {
    .unit_flops = llama_unit_flops,
    .run_bytes = llama_run_bytes,
    .checkpoint_bytes = llama_checkpoint_bytes,
};

static void use_param(struct llama *llama, int unit, int param)
{
    struct model_unit *of = &llama->units[unit];
    llama->lists[llama->listed] = param;
    if (of->param_count++ == 0)
        of->params = &llama->lists[llama->listed];
    llama->listed++;
}

// rows 0: a vector.
static void add_param(struct llama *llama, int unit, const char *name, size_t rows, size_t columns)
{
    struct model_param *param = &llama->params[llama->model.param_count];
    snprintf(param->name, sizeof param->name, "%s.%s", llama->names[unit], name);
    param->shape_rank = rows ? 2 : 1;
    param->shape[0] = rows ? rows : columns;
    param->shape[1] = rows ? columns : 0;
    param->count = rows ? rows * columns : columns;
    param->used = true;
    param->first_unit = unit;
    param->unit_count = 1;
    use_param(llama, unit, llama->model.param_count);
    llama->model.param_count++;
}

static void add_mlp(struct llama *llama, int unit, const char *prefix)
{
    const struct llama_shape *s = &llama->shape;
    char name[48];
    snprintf(name, sizeof name, "%sgate.weight", prefix);
    add_param(llama, unit, name, s->hidden, s->width);
    snprintf(name, sizeof name, "%sup.weight", prefix);
    add_param(llama, unit, name, s->hidden, s->width);
    snprintf(name, sizeof name, "%sdown.weight", prefix);
    add_param(llama, unit, name, s->width, s->hidden);
}

static void add_block(struct llama *llama, int unit)
{
    const struct llama_shape *s = &llama->shape;
    add_param(llama, unit, "attention_norm.weight", 0, s->width);
    add_param(llama, unit, "wq.weight", query_width(s), s->width);
    add_param(llama, unit, "wk.weight", key_width(s), s->width);
    add_param(llama, unit, "wv.weight", key_width(s), s->width);
    add_param(llama, unit, "wo.weight", s->width, query_width(s));
    add_param(llama, unit, "ffn_norm.weight", 0, s->width);
    if (s->experts == 0)
        add_mlp(llama, unit, "");
    else
        add_param(llama, unit, "router.weight", s->experts, s->width);
    for (size_t expert = 0; expert < s->experts; expert++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "experts.%zu.", expert);
        add_mlp(llama, unit, prefix);
    }
}

static void fill(struct llama *llama)
{
    const struct llama_shape *s = &llama->shape;
    int head = (int)s->layers + 1;
    snprintf(llama->names[0], sizeof *llama->names, "embedding");
    add_param(llama, 0, "weight", s->vocabulary, s->width);
    for (int unit = 1; unit < head; unit++) {
        snprintf(llama->names[unit], sizeof *llama->names, "layers.%d", unit - 1);
        add_block(llama, unit);
    }
    snprintf(llama->names[head], sizeof *llama->names, "head");
    add_param(llama, head, "norm.weight", 0, s->width);
    if (s->tied_head) {
        use_param(llama, head, 0);
        llama->params[0].unit_count = 2;
    } else {
        add_param(llama, head, "output.weight", s->vocabulary, s->width);
    }
    for (int unit = 0; unit <= head; unit++)
        llama->units[unit].name = llama->names[unit];
}

int plan_llama_make(const char *name, const struct llama_shape *shape, struct model **out)
{
    size_t mlps = shape->experts > 0 ? shape->experts : 1;
    size_t units = shape->layers + 2;
    size_t params = shape->layers * (ATTENTION_PARAMS + 1 + mlps * MLP_PARAMS) + OTHER_PARAMS;
    struct llama *llama = calloc(1, sizeof *llama);
    if (!llama)
        return err_set(ERR_MEMORY, "no memory for %s", name);
    llama->shape = *shape;
    llama->params = calloc(params, sizeof *llama->params);
    llama->units = calloc(units, sizeof *llama->units);
    llama->lists = calloc(params, sizeof *llama->lists);
    llama->names = calloc(units, sizeof *llama->names);
    if (!llama->params || !llama->units || !llama->lists || !llama->names) {
        free(llama->params);
        free(llama->units);
        free(llama->lists);
        free(llama->names);
        free(llama);
        return err_set(ERR_MEMORY, "no memory for %s", name);
    }
    llama->model = (struct model){.name = name,
                                  .params = llama->params,
                                  .units = llama->units,
                                  .unit_count = (int)units,
                                  .group_count = 1,
                                  .sequence_length = shape->sequence_length,
                                  .operations = &llama_operations,
                                  .shape = &llama->shape};
    fill(llama);
    *out = &llama->model;
    return ERR_NONE;
}
