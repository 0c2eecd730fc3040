// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_model.h"
#include "plan/shape/decoder.h"
#include "ref/model/gpt.h"
#include "ref/model/llama/llama.h"
#include "ref/model/part.h"

static void gpt_transformer(const struct model *model, struct transformer *out)
{
    const struct gpt_shape *s = model->shape;
    const struct model_place one = {.tensor_parts = 1, .pipeline_parts = 1, .expert_parts = 1};
    const struct model_place *place = model->part ? &model->part->place : &one;
    size_t parts = (size_t)place->tensor_parts, width = s->width / parts;
    *out = (struct transformer){
        .blocks = s->block_count / (size_t)place->pipeline_parts,
        .width = s->width,
        .query_width = width,
        .key_width = width,
        .value_width = width,
        .output_width = width,
        .attended_length = (double)s->sequence_length,
        .vocabulary = s->vocabulary / parts,
        .sequence_length = s->sequence_length,
        .hidden = 4 * width,
        .mlp_matrices = 2,
        .experts = s->experts.count > 0 ? s->experts.count / (size_t)place->expert_parts : 1,
        .experts_used = s->experts.count > 0 ? s->experts.top : 1,
        .sequence_ranks = s->sequence_parallel ? parts : 1,
        .is_frozen = s->lora.rank > 0,
    };
}

size_t plan_model_length(const struct model *model)
{
    struct transformer t;
    return model->sequence_length * (decoder_transformer(model, &t) ? t.context_ranks : 1);
}

bool plan_model_transformer(const struct model *model, struct transformer *out)
{
    const struct llama_sizes *s = llama_sizes_of(model);
    if (decoder_transformer(model, out))
        return true;
    if (s)
        *out = (struct transformer){.blocks = s->layers,
                                    .width = s->width,
                                    .query_width = s->width,
                                    .key_width = s->width / s->heads * s->kv_heads,
                                    .value_width = s->width / s->heads * s->kv_heads,
                                    .output_width = s->width,
                                    .attended_length = (double)s->length,
                                    .vocabulary = s->vocabulary,
                                    .sequence_length = s->length,
                                    .hidden = s->hidden,
                                    .mlp_matrices = 3,
                                    .experts = 1,
                                    .experts_used = 1,
                                    .sequence_ranks = 1};
    else if (model->wants_text)
        gpt_transformer(model, out);
    return s || model->wants_text;
}
