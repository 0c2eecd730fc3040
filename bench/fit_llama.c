// SPDX-License-Identifier: Apache-2.0
// A block is x2 = x + wo(attention(wq(n), wk(n), wv(n))), n = norm(x); x' = x2 + down(silu(gate(m)) * up(m)),
// m = norm(x2). Its working memory is counted as the reference lays out that of a GPT (ref/model/gpt_pass.c): x, q, k,
// v, the attention's output, x2, gate and up of every block are kept, in fp32; scores are those of one head.
#include "fit_llama.h"

#include "err.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct llama_shape {
    const char *name;
    size_t layers, width, key_width, hidden, vocabulary, length;  // key_width: of all heads of keys, or of values
};

// Meta's model cards of Llama 3.
static const struct llama_shape shapes[] = {
    {"llama-8b", 32, 4096, 8 * 128, 14336, 128256, 8192},
    {"llama-70b", 80, 8192, 8 * 128, 28672, 128256, 8192},
};
enum { SHAPE_COUNT = sizeof shapes / sizeof *shapes, BLOCK_PARAMS = 9, OTHER_PARAMS = 3 };

struct llama {
    struct model model;
    struct model_param *params;
    struct model_unit *units;
    int *lists;
    char (*names)[24];
};

const char *fit_llama_name(int index)
{
    return index >= 0 && index < SHAPE_COUNT ? shapes[index].name : NULL;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t llama_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    const struct llama_shape *s = model->shape;
    size_t rows = sequence_count * s->length, largest_param = 0, largest_unit = 0;
    for (int unit = 0; unit < model->unit_count; unit++) {
        size_t count = 0;
        for (int i = 0; i < model->units[unit].param_count; i++) {
            size_t param_count = model->params[model->units[unit].params[i]].count;
            largest_param = larger(largest_param, param_count);
            count += param_count;
        }
        largest_unit = larger(largest_unit, count);
    }
    size_t block = rows * (4 * s->width + 2 * s->key_width + 2 * s->hidden + 2);
    size_t total = checkpointing ? block : block * s->layers + rows * s->width;
    total += rows * (1 + 2 * s->width + 2 * larger(s->hidden, s->width + 2 * s->key_width));
    total += 2 * s->length * s->length + larger(s->hidden, s->width);
    if (dtype == DTYPE_FP32)
        total += larger(rows * s->vocabulary, largest_param);
    else
        total += rows * s->vocabulary + largest_param + largest_unit;
    return total * sizeof(float);
}

static size_t llama_checkpoint_bytes(const struct model *model, int unit, size_t sequence_count)
{
    const struct llama_shape *s = model->shape;
    return unit > 0 ? sequence_count * s->length * s->width * sizeof(float) : 0;
}

static const struct model_operations llama_operations = {
    .run_bytes = llama_run_bytes,
    .checkpoint_bytes = llama_checkpoint_bytes,
};

// rows 0: a vector.
static void add_param(struct llama *llama, int unit, const char *name, size_t rows, size_t columns)
{
    struct model_param *param = &llama->params[llama->model.param_count];
    struct model_unit *of = &llama->units[unit];
    snprintf(param->name, sizeof param->name, "%s.%s", llama->names[unit], name);
    param->shape_rank = rows ? 2 : 1;
    param->shape[0] = rows ? rows : columns;
    param->shape[1] = rows ? columns : 0;
    param->count = rows ? rows * columns : columns;
    param->used = true;
    param->first_unit = unit;
    param->unit_count = 1;
    llama->lists[llama->model.param_count] = llama->model.param_count;
    if (of->param_count++ == 0)
        of->params = &llama->lists[llama->model.param_count];
    llama->model.param_count++;
}

static void fill(struct llama *llama, const struct llama_shape *s)
{
    int head = (int)s->layers + 1;
    snprintf(llama->names[0], sizeof *llama->names, "embedding");
    add_param(llama, 0, "weight", s->vocabulary, s->width);
    for (int unit = 1; unit < head; unit++) {
        snprintf(llama->names[unit], sizeof *llama->names, "layers.%d", unit - 1);
        add_param(llama, unit, "attention_norm.weight", 0, s->width);
        add_param(llama, unit, "wq.weight", s->width, s->width);
        add_param(llama, unit, "wk.weight", s->key_width, s->width);
        add_param(llama, unit, "wv.weight", s->key_width, s->width);
        add_param(llama, unit, "wo.weight", s->width, s->width);
        add_param(llama, unit, "ffn_norm.weight", 0, s->width);
        add_param(llama, unit, "gate.weight", s->hidden, s->width);
        add_param(llama, unit, "up.weight", s->hidden, s->width);
        add_param(llama, unit, "down.weight", s->width, s->hidden);
    }
    snprintf(llama->names[head], sizeof *llama->names, "head");
    add_param(llama, head, "norm.weight", 0, s->width);
    add_param(llama, head, "output.weight", s->vocabulary, s->width);
    for (int unit = 0; unit <= head; unit++)
        llama->units[unit].name = llama->names[unit];
}

static void llama_free(struct llama *llama)
{
    free(llama->params);
    free(llama->units);
    free(llama->lists);
    free(llama->names);
    free(llama);
}

static int make(const struct llama_shape *s, struct llama **out)
{
    size_t units = s->layers + 2, params = s->layers * BLOCK_PARAMS + OTHER_PARAMS;
    struct llama *llama = calloc(1, sizeof *llama);
    if (!llama)
        return err_set(ERR_MEMORY, "no memory for %s", s->name);
    llama->params = calloc(params, sizeof *llama->params);
    llama->units = calloc(units, sizeof *llama->units);
    llama->lists = calloc(params, sizeof *llama->lists);
    llama->names = calloc(units, sizeof *llama->names);
    if (!llama->params || !llama->units || !llama->lists || !llama->names) {
        llama_free(llama);
        return err_set(ERR_MEMORY, "no memory for %s", s->name);
    }
    fill(llama, s);
    llama->model.name = s->name;
    llama->model.params = llama->params;
    llama->model.units = llama->units;
    llama->model.unit_count = (int)units;
    llama->model.group_count = 1;
    llama->model.sequence_length = s->length;
    llama->model.operations = &llama_operations;
    llama->model.shape = s;
    *out = llama;
    return ERR_NONE;
}

int fit_llama_find(const char *name, const struct model **out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct llama *made[SHAPE_COUNT];
    int rc = ERR_NONE;
    *out = NULL;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        if (strcmp(name, shapes[i].name) != 0)
            continue;
        pthread_mutex_lock(&lock);
        if (!made[i])
            rc = make(&shapes[i], &made[i]);
        *out = made[i] ? &made[i]->model : NULL;
        pthread_mutex_unlock(&lock);
    }
    return rc;
}
