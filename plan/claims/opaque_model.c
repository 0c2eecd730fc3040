// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/opaque_model.h"

#include <assert.h>
#include <stdio.h>

static size_t run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    (void)model, (void)sequence_count, (void)dtype, (void)checkpointing;
    return 0;
}

static size_t checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    (void)model, (void)layer, (void)sequence_count;
    return 0;
}

static double layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    return 2 * (double)model->params[layer].count * (double)sequence_count;
}

static const struct model_operations operations = {
    .layer_flops = layer_flops, .run_bytes = run_bytes, .checkpoint_bytes = checkpoint_bytes};

void opaque_model_make(uint64_t params, int layers, struct opaque_model *out)
{
    assert(layers >= 1 && layers <= OPAQUE_MODEL_LAYER_MAX);
    *out = (struct opaque_model){0};
    for (int i = 0; i < layers; i++) {
        struct model_param *param = &out->params[i];
        snprintf(param->name, sizeof param->name, "layers.%d", i);
        param->count = params / (uint64_t)layers + ((uint64_t)i < params % (uint64_t)layers);
        param->shape[0] = param->count;
        param->shape_rank = 1;
        param->used = true;
        param->first_layer = i;
        param->layer_count = 1;
        out->indices[i] = i;
        out->layers[i] = (struct model_layer){.name = param->name, .params = &out->indices[i], .param_count = 1};
    }
    out->model = (struct model){.name = "a model of equal layers",
                                .params = out->params,
                                .param_count = layers,
                                .layers = out->layers,
                                .layer_count = layers,
                                .group_count = 1,
                                .sequence_length = 1,
                                .operations = &operations};
}
