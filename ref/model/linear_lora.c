// SPDX-License-Identifier: Apache-2.0
// The models of linear.h with adapters: every parameter of the base is frozen, and each matrix that is a target has an
// A and a B behind it, in the layer that first uses it, with given gradients of their own.
#include "ref/model/linear.h"

#include "base/err.h"
#include "ref/model/lora/lora.h"
#include "ref/model/model_kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS_MAX = 64, LAYERS_MAX = 16 };

struct adapted {
    struct model model;
    struct model_param params[PARAMS_MAX];
    struct model_layer layers[LAYERS_MAX];
    int lists[LAYERS_MAX][PARAMS_MAX];
    struct linear_shape shape;
    struct lora lora;
    char name[MODEL_NAME_BYTES + 64];
};

static int complete(const struct model *base, const char *name, struct lora *lora)
{
    char modules[PARAMS_MAX][MODEL_NAME_BYTES];
    const char *names[PARAMS_MAX + 1] = {NULL};
    int count = 0;
    for (int i = 0; i < base->param_count; i++)
        if (base->params[i].shape_rank == 2) {
            lora_module(base->params[i].name, modules[count]);
            names[count] = modules[count];
            count++;
        }
    return lora_complete(name, "all-linear", names, lora);
}

// Copies the base's parameters, each matrix followed by its adapters; at[i] is where the i-th is now.
static void copy_params(const struct model *base, const struct lora *lora, struct adapted *out, int at[])
{
    int count = 0;
    for (int i = 0; i < base->param_count; i++) {
        const struct model_param *param = &base->params[i];
        char module[MODEL_NAME_BYTES];
        lora_module(param->name, module);
        at[i] = count;
        out->params[count] = *param;
        out->params[count++].frozen = true;
        for (int is_b = 0; is_b < 2 && param->shape_rank == 2 && lora_adapts(lora, module); is_b++) {
            size_t rows = is_b ? param->shape[0] : lora->rank, columns = is_b ? lora->rank : param->shape[1];
            out->params[count] = (struct model_param){.shape = {rows, columns},
                                                      .shape_rank = 2,
                                                      .layer_count = 1,
                                                      .count = rows * columns,
                                                      .group = param->group,
                                                      .used = param->used,
                                                      .first_layer = param->first_layer};
            lora_param_name(module, is_b, out->params[count++].name);
        }
    }
    at[base->param_count] = out->model.param_count = count;
}

static void copy_layers(const struct model *base, const int at[], struct adapted *out)
{
    for (int layer = 0; layer < base->layer_count; layer++) {
        int count = 0, *list = out->lists[layer];
        for (int i = 0; i < base->layers[layer].param_count; i++) {
            int param = base->layers[layer].params[i];
            bool first = base->params[param].first_layer == layer;
            for (int k = at[param]; k < (first ? at[param + 1] : at[param] + 1); k++)
                list[count++] = k;
        }
        out->layers[layer] = (struct model_layer){base->layers[layer].name, list, count};
    }
}

static const struct model *base_of(const char *name)
{
    const struct model *base;
    size_t length = strcspn(name, ":");
    for (int i = 0; (base = linear_model(i)); i++)
        if (strlen(base->name) == length && strncmp(base->name, name, length) == 0)
            return base;
    return NULL;
}

static int make(const char *name, struct model **out)
{
    const struct model *base = base_of(name);
    struct lora lora;
    int at[PARAMS_MAX + 1];
    TRY(lora_parse_all(name, strchr(name, ':') + 1, &lora));
    TRY(complete(base, name, &lora));
    struct adapted *adapted = calloc(1, sizeof *adapted);
    if (!adapted)
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    adapted->model = *base;
    snprintf(adapted->name, sizeof adapted->name, "%s", name);
    copy_params(base, &lora, adapted, at);
    copy_layers(base, at, adapted);
    // The gradient that overflows is the last trained one's.
    adapted->shape = *(const struct linear_shape *)base->shape;
    adapted->shape.overflow_param = -1;
    for (int i = 0; i < adapted->model.param_count; i++)
        if (!adapted->params[i].frozen && adapted->params[i].count > 0)
            adapted->shape.overflow_param = i;
    adapted->model.name = adapted->name;
    adapted->model.params = adapted->params;
    adapted->model.layers = adapted->layers;
    adapted->model.shape = &adapted->shape;
    adapted->lora = lora;
    adapted->model.lora = &adapted->lora;
    *out = &adapted->model;
    return ERR_NONE;
}

bool linear_is_adapted(const char *name)
{
    return strchr(name, ':') && base_of(name);
}

int linear_find_adapted(const char *name, const struct model **out)
{
    if (strlen(name) >= sizeof((struct adapted *)0)->name)
        return err_set(ERR_USAGE, "the model name %.40s... is too long", name);
    return model_kept(name, make, out);
}
