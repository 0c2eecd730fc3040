// SPDX-License-Identifier: Apache-2.0
// A decoder as it is made: its parameters with the way they are cut, and what each layer computes and keeps.
#pragma once

#include "plan/shape/decoder.h"

#include <stdint.h>

// How tensor parallelism cuts a parameter (Megatron-LM, arXiv 1909.08053, section 3): the rows of a matrix, which are
// its outputs, or a vector; or a matrix' columns; or not at all.
enum decoder_cut { DECODER_WHOLE, DECODER_CUT_ROWS, DECODER_CUT_COLUMNS };

struct decoder_role {
    enum decoder_cut cut;
    uint16_t expert;  // from 1; 0: it is no expert's
};

// Of a token in one layer. Tensor parallelism divides the first of each pair.
struct decoder_work {
    double cut_elements, whole_elements;  // of the matrices that it is multiplied with
    double attention, state;              // operations of attention's products, and of a state and its convolution
    size_t cut_kept, whole_kept;          // values kept for backward in addition to the stream's
    size_t widest;                        // of the values between two products
};

struct decoder {
    struct model model;
    struct decoder_shape shape;
    struct model_param *params;
    struct decoder_role *roles;  // of params
    struct model_layer *layers;
    struct decoder_work *work;  // of layers
    int *lists;
    char (*names)[24];
    size_t listed;
};

extern const struct model_operations decoder_operations;

// A model's, or a part's.
const struct decoder *decoder_of(const struct model *model);
size_t decoder_tensor_parts(const struct model *model);

// Ranks of tensor parallelism that have other experts each; 1: all have slices of the same.
size_t decoder_expert_ranks(const struct model *model);

// The layer of the whole model.
int decoder_whole_layer(const struct model *model, int layer);

static inline bool decoder_is_block(const struct decoder *decoder, int whole_layer)
{
    return whole_layer > 0 && whole_layer <= (int)decoder->shape.blocks;
}

// In decoder_params.c. rows 0: a vector; columns 0: there is none. A matrix counts as work, and may have an adapter.
void decoder_use(struct decoder *decoder, int layer, int param);
void decoder_add(struct decoder *decoder, int layer, const char *name, size_t rows, size_t columns,
                 struct decoder_role role);
void decoder_add_matrix(struct decoder *decoder, int layer, const char *name, size_t rows, size_t columns,
                        struct decoder_role role);

// In decoder_block.c: the parameters of a block, the layer behind it, and its work.
void decoder_add_block(struct decoder *decoder, size_t block);

// In decoder_cut.c: the operations that parts need.
int decoder_place(const struct model *whole, const struct model_place *place, int *first_layer, int *layer_count);
int decoder_slice(const struct model *whole, const struct model_place *place, struct model_slice *slice,
                  struct model_param *param);
struct model_exchange decoder_exchange(const struct model *model, int layer, size_t sequence_count, bool backward,
                                       bool checkpointing);
size_t decoder_token_bytes(const struct model *model, int layer, size_t sequence_count);
void decoder_border(const struct model_run *run, struct model_border *out);
size_t decoder_stream_rows(const struct model *model, size_t sequence_count);
