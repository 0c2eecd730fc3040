// SPDX-License-Identifier: Apache-2.0
// A GPT's layers in the parts of a pipeline: all parts have the same number of blocks; the first has the embedding as
// well, and the last one the head.
#include "ref/model/gpt_pass.h"

int gpt_layers_a_block(const struct gpt_shape *shape)
{
    return shape->tile_count == 1 ? 1 : 1 + (int)shape->tile_count;
}

size_t gpt_block_count(const struct model *model)
{
    const struct gpt_shape *shape = model->shape;
    return model->part ? shape->block_count / (size_t)model->part->place.pipeline_parts : shape->block_count;
}

struct gpt_layer gpt_layer_of(const struct model *model, int layer)
{
    const struct gpt_shape *shape = model->shape;
    int whole_layer = layer + (model->part ? model->part->first_layer : 0), each = gpt_layers_a_block(shape);
    size_t first_block = model->part ? (size_t)model->part->place.pipeline * gpt_block_count(model) : 0;
    if (whole_layer == 0)
        return (struct gpt_layer){.kind = GPT_EMBEDDING};
    if (whole_layer == 1 + (int)shape->block_count * each)
        return (struct gpt_layer){.kind = GPT_HEAD};
    size_t block = (size_t)((whole_layer - 1) / each), part = (size_t)((whole_layer - 1) % each);
    return (struct gpt_layer){.kind = GPT_BLOCK,
                              .block = block - first_block,
                              .attention = part == 0,
                              .mlp = shape->tile_count == 1 || part > 0,
                              .tile = part > 0 ? part - 1 : 0};
}

bool gpt_has_head(const struct model *model)
{
    return gpt_layer_of(model, model->layer_count - 1).kind == GPT_HEAD;
}

void gpt_border(const struct model_run *run, struct model_border *out)
{
    struct gpt_layout at = gpt_layout_of(run->model, run->sequence_count, run->dtype, run->checkpointing);
    const struct gpt_shape *shape = run->model->shape;
    float *memory = run->memory;
    *out = (struct model_border){
        .input = memory + at.input,
        .output = memory + at.output,
        .gradient = memory + at.gradient,
        .bytes = gpt_stream_rows(run->model, run->sequence_count) * shape->width * sizeof(float),
    };
}
