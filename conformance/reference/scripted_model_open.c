// SPDX-License-Identifier: Apache-2.0
// Makes the scripted model of a case from the case's files.
#include "conformance/reference/scripted_model_internal.h"

#include "base/err.h"
#include "base/file.h"
#include "ref/checkpoint/safetensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_PARAM_MAX = 3 };

static bool uses_param(const struct model_layer *layer, int param)
{
    for (int i = 0; i < layer->param_count; i++)
        if (layer->params[i] == param)
            return true;
    return false;
}

// The parameters that are not tied, in order.
static int open_params(struct scripted *scripted)
{
    const struct check_case *c = scripted->setting.c;
    struct model *model = &scripted->model;
    for (int i = 0; i < c->param_count; i++) {
        const struct case_param *from = &c->params[i];
        if (case_owner(c, i) != i)
            continue;
        int index = scripted->param_of[i] = model->param_count++;
        struct model_param *to = &scripted->params[index];
        *to = (struct model_param){.shape_rank = from->shape_rank,
                                   .count = from->count,
                                   .group = from->group,
                                   .frozen = from->frozen,
                                   .used = from->used,
                                   .whole = case_is_muon(c, i)};
        snprintf(to->name, sizeof to->name, "%s", from->name);
        memcpy(to->shape, from->shape, sizeof to->shape);
        if (!(scripted->initial[index] = calloc(from->count + 1, sizeof(float))))
            return err_set(ERR_MEMORY, "no memory for the %zu elements of %s", from->count, from->name);
    }
    return ERR_NONE;
}

// Layers of 1, 2, 3, 1, 2, ... uses; no layer uses a parameter twice.
static void open_layers(struct scripted *scripted)
{
    const struct check_case *c = scripted->setting.c;
    struct model *model = &scripted->model;
    struct model_layer *layer = NULL;
    for (int i = 0; i < c->param_count; i++) {
        int index = scripted->param_of[i] = scripted->param_of[case_owner(c, i)];
        int room = layer ? 1 + (model->layer_count - 1) % LAYER_PARAM_MAX : 0;
        if (!layer || layer->param_count == room || uses_param(layer, index)) {
            layer = &scripted->layers[model->layer_count++];
            *layer = (struct model_layer){.name = c->params[i].name, .params = &scripted->layer_params[i]};
        }
        scripted->layer_params[i] = index;
        scripted->uses[i] = i;
        layer->param_count++;
        struct model_param *param = &scripted->params[index];
        if (param->layer_count++ == 0)
            param->first_layer = model->layer_count - 1;
        param->used |= c->params[i].used;
    }
}

static int find_tensor(const struct safetensors *file, const char *name, size_t count, enum dtype dtype,
                       const struct safetensors_tensor **out)
{
    *out = safetensors_find(file, name);
    if (!*out)
        return err_set(ERR_USAGE, "%s: has no tensor \"%s\"", file->path, name);
    if ((*out)->type != safetensors_type_of(dtype) || (*out)->count != count)
        return err_set(ERR_USAGE, "%s: tensor \"%s\" has %llu elements of type %s, expected %zu of type %s", file->path,
                       name, (unsigned long long)(*out)->count, safetensors_type_name((*out)->type), count,
                       safetensors_type_name(safetensors_type_of(dtype)));
    return ERR_NONE;
}

static int read_initial(struct scripted *scripted, const struct safetensors *file)
{
    const struct check_case *c = scripted->setting.c;
    for (int i = 0; i < c->param_count; i++) {
        const struct safetensors_tensor *tensor;
        size_t count = c->params[i].count;
        if (case_owner(c, i) != i)
            continue;
        TRY(find_tensor(file, c->params[i].name, count, DTYPE_FP32, &tensor));
        TRY(safetensors_read(file, tensor, 0, count, scripted->initial[scripted->param_of[i]]));
    }
    return ERR_NONE;
}

static int read_step(struct scripted *scripted, const struct safetensors *file, int number)
{
    const struct check_case *c = scripted->setting.c;
    struct scripted_step *step = &scripted->steps[number];
    step->data = malloc(file->data_bytes + 1);
    step->tensors = calloc(scripted_position(c, c->world, 0), sizeof *step->tensors);
    if (!step->data || !step->tensors)
        return err_set(ERR_MEMORY, "%s: no memory for %llu bytes", file->path, (unsigned long long)file->data_bytes);
    TRY(file_read_at(file->fd, file->path, file->data_begin, step->data, file->data_bytes));
    for (int rank = 0; rank < c->world; rank++)
        for (int micro = 0; micro < c->accumulation; micro++)
            for (int i = 0; i < c->param_count; i++) {
                char name[CASE_TENSOR_BYTES];
                const struct safetensors_tensor *tensor;
                if (!case_is_used_in(c, i, number, micro))
                    continue;
                case_gradient_name(name, micro, rank, c->params[i].name);
                TRY(find_tensor(file, name, c->params[i].count, c->precision, &tensor));
                step->tensors[scripted_position(c, rank, micro) + (size_t)i] = step->data + tensor->begin;
            }
    return ERR_NONE;
}

// step 0: the initial parameters.
static int read_file(struct scripted *scripted, int step)
{
    char name[32] = "init.safetensors", path[PATH_MAX];
    struct safetensors file;
    if (step > 0)
        snprintf(name, sizeof name, "grads-%d.safetensors", step);
    TRY(file_join(scripted->setting.folder, name, path));
    TRY(safetensors_open(path, &file));
    int rc = step > 0 ? read_step(scripted, &file, step) : read_initial(scripted, &file);
    safetensors_close(&file);
    return rc;
}

static int open_seen(struct scripted *scripted)
{
    const struct check_case *c = scripted->setting.c;
    size_t positions = scripted_position(c, c->world, 0);
    if (!(scripted->seen = calloc(positions + 1, sizeof *scripted->seen)))
        return err_set(ERR_MEMORY, "no memory for what forward sees");
    for (size_t i = 0; i < positions; i++)
        if (!(scripted->seen[i] = calloc(c->params[i % (size_t)c->param_count].count + 1, dtype_bytes(c->precision))))
            return err_set(ERR_MEMORY, "no memory for what forward sees");
    return ERR_NONE;
}

static int open_scripted(struct scripted *scripted)
{
    const struct check_case *c = scripted->setting.c;
    TRY(open_params(scripted));
    open_layers(scripted);
    if (c->phase != PHASE_RESUME)
        TRY(read_file(scripted, 0));
    for (int step = case_first_step(c); step <= case_last_step(c); step++)
        TRY(read_file(scripted, step));
    return scripted->setting.keeps_seen ? open_seen(scripted) : ERR_NONE;
}

int scripted_open(const struct scripted_setting *setting, struct scripted **out)
{
    assert(setting->c && setting->folder && setting->before_steps >= 0);
    struct scripted *scripted = *out = calloc(1, sizeof *scripted);
    if (!scripted)
        return err_set(ERR_MEMORY, "no memory for the model of a case");
    scripted->setting = *setting;
    scripted->model = (struct model){
        .name = "scripted",
        .params = scripted->params,
        .layers = scripted->layers,
        .group_count = setting->c->group_count,
        .sequence_length = 1,
        .operations = &scripted_operations,
        .shape = scripted,
    };
    int rc = open_scripted(scripted);
    if (rc != ERR_NONE) {
        scripted_close(scripted);
        *out = NULL;
    }
    return rc;
}

void scripted_close(struct scripted *scripted)
{
    if (!scripted)
        return;
    for (size_t i = 0; scripted->seen && i < scripted_position(scripted->setting.c, scripted->setting.c->world, 0); i++)
        free(scripted->seen[i]);
    free(scripted->seen);
    for (int i = 0; i < CASE_PARAM_MAX; i++)
        free(scripted->initial[i]);
    for (int step = 0; step <= CASE_STEP_MAX; step++) {
        free(scripted->steps[step].data);
        free(scripted->steps[step].tensors);
    }
    free(scripted);
}
