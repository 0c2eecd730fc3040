// SPDX-License-Identifier: Apache-2.0
// How a GPT is cut into parts. Pipeline parts have the same number of blocks; the first has the embedding as well, and
// the last one the head.
#include "ref/model/gpt_pass.h"

#include "base/err.h"
#include "ref/mesh/mesh.h"

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

int gpt_place(const struct model *whole, const struct model_place *place, int *first_layer, int *layer_count)
{
    const struct gpt_shape *shape = whole->shape;
    const struct mesh mesh = {1, 1, place->tensor_parts, place->pipeline_parts, 1};
    int blocks = (int)shape->block_count / place->pipeline_parts, each = gpt_layers_a_block(shape);
    bool first = place->pipeline == 0, last = place->pipeline == place->pipeline_parts - 1;
    TRY(mesh_check_model(&mesh, (int)shape->block_count, (int)shape->head_count, 0));
    if (place->tensor_parts > 1)
        return err_set(ERR_USAGE, "the model %s cannot be cut over tensor parallelism", whole->name);
    *first_layer = first ? 0 : 1 + place->pipeline * blocks * each;
    *layer_count = blocks * each + first + last;
    return ERR_NONE;
}

// The token embedding is in the first part and in the last one. The first has its states and counts it; the last one
// has a copy, which is frozen for its stage of ZeRO (train_pipeline.h).
int gpt_slice(const struct model *whole, const struct model_place *place, struct model_slice *slice,
              struct model_param *param)
{
    (void)whole;
    if (slice->param == TOKEN_WEIGHT && place->pipeline > 0) {
        slice->counted = false;
        param->frozen = true;
    }
    return ERR_NONE;
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
        .bytes = run->sequence_count * shape->sequence_length * shape->width * sizeof(float),
    };
}
