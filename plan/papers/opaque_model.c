// SPDX-License-Identifier: Apache-2.0
#include "plan/papers/opaque_model.h"

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

void opaque_model_make(uint64_t params, struct opaque_model *out)
{
    *out = (struct opaque_model){
        .param = {
            .name = "layer", .count = params, .shape = {params}, .shape_rank = 1, .used = true, .layer_count = 1}};
    out->layer = (struct model_layer){.name = out->param.name, .params = &out->index, .param_count = 1};
    out->model = (struct model){.name = "a model of one layer",
                                .params = &out->param,
                                .param_count = 1,
                                .layers = &out->layer,
                                .layer_count = 1,
                                .group_count = 1,
                                .sequence_length = 1,
                                .operations = &operations};
}
