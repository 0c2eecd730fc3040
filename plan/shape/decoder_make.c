// SPDX-License-Identifier: Apache-2.0
#include "plan/shape/decoder_internal.h"
#include "ref/model/part.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

// The most parameters of a block without its MLPs, of an MLP, and of the model without its blocks; of an adapted
// matrix.
enum { BLOCK_PARAMS = 24, MLP_PARAMS = 5, OTHER_PARAMS = 10, ADAPTED_PARAMS = 3 };

const struct decoder *decoder_of(const struct model *model)
{
    const struct model *of = model->part ? model->part->whole : model;
    return of->operations == &decoder_operations ? of->shape : NULL;
}

int decoder_whole_layer(const struct model *model, int layer)
{
    return model->part ? model->part->first_layer + layer : layer;
}

size_t decoder_tensor_parts(const struct model *model)
{
    return model->part ? (size_t)model->part->place.tensor_parts : 1;
}

size_t decoder_expert_ranks(const struct model *model)
{
    return model->whole_experts ? decoder_tensor_parts(model) : 1;
}

// Tokens that are narrower than the blocks have a matrix to the blocks' width, and one back.
static void add_embedding(struct decoder *decoder)
{
    const struct decoder_shape *s = &decoder->shape;
    const struct decoder_role whole = {DECODER_WHOLE, 0}, rows_cut = {DECODER_CUT_ROWS, 0};
    size_t narrow = s->embedding_width > 0 ? s->embedding_width : s->width;
    decoder_add(decoder, 0, "weight", s->vocabulary, narrow, rows_cut);
    decoder_add(decoder, 0, "positions.weight", s->positions, s->positions > 0 ? s->width : 0, whole);
    decoder_add_matrix(decoder, 0, "project.weight", narrow == s->width ? 0 : s->width, narrow, whole);
    decoder_add(decoder, 0, "norm.weight", 0, s->embedding_norm ? s->norm_vectors * s->width : 0, whole);
}

static void add_head(struct decoder *decoder, int head)
{
    const struct decoder_shape *s = &decoder->shape;
    const struct decoder_role whole = {DECODER_WHOLE, 0}, rows_cut = {DECODER_CUT_ROWS, 0};
    size_t narrow = s->embedding_width > 0 ? s->embedding_width : s->width;
    decoder_add(decoder, head, "norm.weight", 0, s->no_final_norm ? 0 : s->norm_vectors * s->width, whole);
    decoder_add_matrix(decoder, head, "project.weight", narrow == s->width ? 0 : narrow, s->width, whole);
    if (s->tied_head) {
        decoder_use(decoder, head, 0);
        decoder->params[0].layer_count = 2;
    } else {
        decoder_add(decoder, head, "output.weight", s->vocabulary, narrow, rows_cut);
    }
    decoder_add(decoder, head, "output.bias", 0, s->head_bias ? s->vocabulary : 0, rows_cut);
    decoder->work[head].cut_elements += (double)s->vocabulary * (double)narrow;
}

static void fill(struct decoder *decoder)
{
    int head = (int)decoder->shape.blocks + 1;
    for (int layer = 0; layer <= head; layer++) {
        snprintf(decoder->names[layer], sizeof *decoder->names, "layers.%d", layer - 1);
        decoder->layers[layer].name = decoder->names[layer];
    }
    snprintf(decoder->names[0], sizeof *decoder->names, "embedding");
    snprintf(decoder->names[head], sizeof *decoder->names, "head");
    add_embedding(decoder);
    for (size_t block = 0; block < decoder->shape.blocks; block++)
        decoder_add_block(decoder, block);
    add_head(decoder, head);
}

static void decoder_free(struct decoder *decoder)
{
    free(decoder->params);
    free(decoder->roles);
    free(decoder->layers);
    free(decoder->work);
    free(decoder->lists);
    free(decoder->names);
    free(decoder);
}

// Each rank has two parts of a causal sequence, so that all attend to as many tokens. A state has no such parts.
static void divide_sequence(struct decoder_shape *s)
{
    if (s->context_ranks == 0 || s->sequence_length % (2 * s->context_ranks) != 0 || s->state.heads > 0)
        s->context_ranks = 1;
    s->sequence_length /= s->context_ranks;
}

int decoder_make(const char *name, const struct decoder_shape *shape, struct model **out)
{
    size_t mlps = shape->experts + 1, layers = shape->blocks + 2, adapted = shape->lora_rank > 0 ? ADAPTED_PARAMS : 1;
    size_t params = shape->blocks * (BLOCK_PARAMS + mlps * MLP_PARAMS) * adapted + OTHER_PARAMS;
    struct decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return err_set(ERR_MEMORY, "no memory for %s", name);
    decoder->shape = *shape;
    divide_sequence(&decoder->shape);
    decoder->params = calloc(params, sizeof *decoder->params);
    decoder->roles = calloc(params, sizeof *decoder->roles);
    decoder->layers = calloc(layers, sizeof *decoder->layers);
    decoder->work = calloc(layers, sizeof *decoder->work);
    decoder->lists = calloc(params, sizeof *decoder->lists);
    decoder->names = calloc(layers, sizeof *decoder->names);
    if (!decoder->params || !decoder->roles || !decoder->layers || !decoder->work || !decoder->lists ||
        !decoder->names) {
        decoder_free(decoder);
        return err_set(ERR_MEMORY, "no memory for %s", name);
    }
    decoder->model = (struct model){.name = name,
                                    .params = decoder->params,
                                    .layers = decoder->layers,
                                    .layer_count = (int)layers,
                                    .group_count = 1,
                                    .sequence_length = decoder->shape.sequence_length,
                                    .sequence_parallel = shape->sequence_parallel,
                                    .expert_count = (int)shape->experts,
                                    .whole_experts = shape->whole_experts,
                                    .operations = &decoder_operations,
                                    .shape = decoder};
    fill(decoder);
    *out = &decoder->model;
    return ERR_NONE;
}
