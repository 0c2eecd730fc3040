// SPDX-License-Identifier: Apache-2.0
#include "ref/model/part.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

size_t model_slice_count(const struct model_slice *slice)
{
    return slice->block_count * slice->block_size;
}

size_t model_slice_index(const struct model_slice *slice, size_t i)
{
    return slice->begin + i / slice->block_size * slice->stride + i % slice->block_size;
}

bool model_slice_next(const struct model_slice *slice, size_t end, size_t *at, size_t *index, size_t *count)
{
    if (*at >= end)
        return false;
    size_t left = slice->block_size - *at % slice->block_size;
    *index = model_slice_index(slice, *at);
    *count = left < end - *at ? left : end - *at;
    *at += *count;
    return true;
}

struct model_slice model_slice_whole(const struct model *whole, int param)
{
    return (struct model_slice){
        .param = param, .block_count = 1, .block_size = whole->params[param].count, .counted = true};
}

void model_slice_cut(const struct model_place *place, size_t block_count, size_t block_size, struct model_slice *slice)
{
    size_t own = block_size / (size_t)place->tensor_parts;
    slice->begin = (size_t)place->tensor * own;
    slice->block_count = block_count;
    slice->block_size = own;
    slice->stride = block_size;
}

struct model_slice model_slice_at(const struct model_slice *slice, int tensor)
{
    struct model_slice other = *slice;
    other.begin = (size_t)tensor * slice->block_size;
    return other;
}

struct model_exchange model_exchange_of_embedding(size_t stream_elements, bool backward)
{
    struct model_exchange e = {.gathers = backward};
    e.sums[MODEL_SUM_STREAM] = (struct model_sum){backward ? 0 : 1, stream_elements};
    return e;
}

struct model_exchange model_exchange_of_head(size_t rows, size_t stream_elements, bool backward, bool again)
{
    struct model_exchange e = {.gathers = 1 + again, .gathered_elements = !backward || again ? 3 * rows : 0};
    e.sums[MODEL_SUM_STREAM] = (struct model_sum){backward, stream_elements};
    return e;
}

void model_exchange_divide(struct model_exchange *e, size_t own_elements)
{
    e->scatters = own_elements > 0 ? e->sums[MODEL_SUM_STREAM].count : 0;
    e->stream_elements = own_elements;
    if (own_elements > 0)
        e->sums[MODEL_SUM_STREAM].count = 0;
    else
        e->gathers = e->sums[MODEL_SUM_NORMS].count = e->sums[MODEL_SUM_BIASES].count = 0;
}

void model_run_border(const struct model_run *run, struct model_border *out)
{
    run->model->operations->border(run, out);
}

// `put`: from the slice's elements to the whole parameter; otherwise the other way.
static void copy(const struct model_slice *slice, char *whole, char *part, size_t element_bytes, bool put)
{
    size_t bytes = slice->block_size * element_bytes;
    for (size_t i = 0; bytes > 0 && i < slice->block_count; i++) {
        char *there = whole + (slice->begin + i * slice->stride) * element_bytes, *here = part + i * bytes;
        memcpy(put ? there : here, put ? here : there, bytes);
    }
}

void model_slice_take(const struct model_slice *slice, const void *whole, size_t element_bytes, void *out)
{
    copy(slice, (char *)(uintptr_t)whole, out, element_bytes, false);
}

void model_slice_put(const struct model_slice *slice, const void *from, size_t element_bytes, void *whole)
{
    copy(slice, whole, (char *)(uintptr_t)from, element_bytes, true);
}

// The whole parameter's initial values, cut.
static int initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    const struct model_part *part = model->part;
    const struct model_slice *slice = &part->slices[param];
    float *whole = malloc((part->whole->params[slice->param].count + 1) * sizeof *whole);
    if (!whole)
        return err_set(ERR_MEMORY, "no memory for the initial values of %s", model->params[param].name);
    int code = model_initialise(part->whole, slice->param, seed, whole);
    if (code == ERR_NONE)
        model_slice_take(slice, whole, sizeof *whole, out);
    free(whole);
    return code;
}

// How the part's layers use a whole parameter, and the part's index of it; -1: it has nothing of it.
struct use {
    int first_layer, layer_count, index;
};

// Adds the whole model's parameter if its slice is not empty.
static int add_param(struct model_part *part, int param, const struct use *use)
{
    struct model_param *p = &part->params[part->model.param_count];
    struct model_slice *slice = &part->slices[part->model.param_count];
    *p = part->whole->params[param];
    p->first_layer = use->first_layer;
    p->layer_count = use->layer_count;
    *slice = model_slice_whole(part->whole, param);
    if (part->whole->operations->slice)
        TRY(part->whole->operations->slice(part->whole, &part->place, slice, p));
    if (slice->block_count == 0)
        return ERR_NONE;
    // A parameter of several parts of a pipeline, a tied weight, belongs to the first. Later ones have copies of it,
    // which their stages of ZeRO do not update (train_pipeline.c).
    if (part->whole->params[param].first_layer < part->first_layer) {
        slice->counted = false;
        p->frozen = true;
    }
    p->count = model_slice_count(slice);
    p->duplicate = !slice->counted;
    part->model.param_count++;
    return ERR_NONE;
}

static void note_uses(const struct model_part *part, struct use *uses)
{
    for (int param = 0; param < part->whole->param_count; param++)
        uses[param].index = -1;
    for (int layer = part->model.layer_count - 1; layer >= 0; layer--) {
        const struct model_layer *from = &part->whole->layers[part->first_layer + layer];
        for (int i = 0; i < from->param_count; i++) {
            uses[from->params[i]].first_layer = layer;
            uses[from->params[i]].layer_count++;
        }
    }
}

static void add_layer(struct model_part *part, int layer, const struct use *uses, int *list)
{
    const struct model_layer *from = &part->whole->layers[part->first_layer + layer];
    part->layers[layer] = *from;
    part->layers[layer].params = list;
    part->layers[layer].param_count = 0;
    for (int i = 0; i < from->param_count; i++)
        if (uses[from->params[i]].index >= 0)
            list[part->layers[layer].param_count++] = uses[from->params[i]].index;
}

static int add_all(struct model_part *part, struct use *uses)
{
    note_uses(part, uses);
    for (int param = 0; param < part->whole->param_count; param++) {
        int index = part->model.param_count;
        if (uses[param].layer_count > 0)
            TRY(add_param(part, param, &uses[param]));
        if (part->model.param_count > index)
            uses[param].index = index;
    }
    int *list = part->layer_params;
    for (int i = 0; i < part->model.layer_count; i++, list += part->layers[i - 1].param_count)
        add_layer(part, i, uses, list);
    return ERR_NONE;
}

static int make(struct model_part *part)
{
    const struct model *whole = part->whole;
    size_t layer_params = 0;
    for (int i = 0; i < whole->layer_count; i++)
        layer_params += (size_t)whole->layers[i].param_count;
    part->params = calloc((size_t)whole->param_count + 1, sizeof *part->params);
    part->slices = calloc((size_t)whole->param_count + 1, sizeof *part->slices);
    part->layers = calloc((size_t)whole->layer_count + 1, sizeof *part->layers);
    part->layer_params = calloc(layer_params + 1, sizeof *part->layer_params);
    struct use *uses = calloc((size_t)whole->param_count + 1, sizeof *uses);
    part->model.params = part->params;
    part->model.layers = part->layers;
    int code = part->params && part->slices && part->layers && part->layer_params && uses
                   ? add_all(part, uses)
                   : err_set(ERR_MEMORY, "no memory for a part of the model %s", whole->name);
    free(uses);
    return code;
}

int model_part_open(const struct model *whole, const struct model_place *place, struct model_part **out)
{
    struct model_part *part = *out = calloc(1, sizeof *part);
    if (!part)
        return err_set(ERR_MEMORY, "no memory for a part of the model %s", whole->name);
    part->model = *whole;
    part->place = *place;
    part->whole = whole;
    part->operations = *whole->operations;
    part->operations.initialise = initialise;
    part->model.operations = &part->operations;
    part->model.part = part;
    part->model.param_count = 0;
    int code = ERR_NONE;
    if (!whole->operations->place)
        code = err_set(ERR_USAGE,
                       "the model %s cannot be cut over tensor or pipeline parallelism; GPTs can, and in plans all "
                       "models from files",
                       whole->name);
    if (code == ERR_NONE)
        code = whole->operations->place(whole, place, &part->first_layer, &part->model.layer_count);
    if (code == ERR_NONE)
        code = make(part);
    if (code != ERR_NONE) {
        model_part_close(part);
        *out = NULL;
    }
    return code;
}

void model_part_close(struct model_part *part)
{
    if (!part)
        return;
    free(part->params);
    free(part->slices);
    free(part->layers);
    free(part->layer_params);
    free(part);
}
