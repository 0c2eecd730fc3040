// SPDX-License-Identifier: Apache-2.0
// A part of a model: what one rank of tensor and pipeline parallelism has of it. A part is a model by itself, so that a
// stage of ZeRO need not know of the others: its parameters are slices of the whole model's, in the whole model's
// order, and its layers are consecutive layers of the whole model. All parts together have every element; an element
// that several parts hold alike, such as a layer norm's, counts in one of them.
#pragma once

#include "ref/model/model.h"

// Which part: its index among the `tensor_parts` that cut each layer, and among the `pipeline_parts` that divide the
// layers.
struct model_place {
    int tensor, tensor_parts;
    int pipeline, pipeline_parts;
    int expert, expert_parts;  // that divide the experts of each mixture
};

// The elements of a whole parameter that a part's parameter has, in its order: blocks of consecutive elements, a stride
// apart.
struct model_slice {
    int param;                                      // index in the whole model
    size_t begin, block_count, block_size, stride;  // in elements
    bool counted;                                   // false: another part counts these elements
};

struct model_part {
    struct model model;  // first member: model.part is this
    struct model_place place;
    const struct model *whole;
    int first_layer;             // in the whole model
    struct model_slice *slices;  // by parameter of the part
    // Owned:
    struct model_operations operations;
    struct model_param *params;
    struct model_layer *layers;
    int *layer_params;
};

// Makes the part at a place. `whole` outlives it; model_part_close frees it. ERR_USAGE: the model cannot be cut so.
int model_part_open(const struct model *whole, const struct model_place *place, struct model_part **out);

// Null-safe.
void model_part_close(struct model_part *part);

// The values that cross the borders of pipeline parts, in a run's memory: the activations that the part's first layer
// reads and its last layer writes, and the gradient, first of what was written, then of what was read. All fp32, of one
// size.
struct model_border {
    void *input, *output, *gradient;
    size_t bytes;
};
void model_run_border(const struct model_run *run, struct model_border *out);

// All elements of a parameter.
struct model_slice model_slice_whole(const struct model *whole, int param);

// Cuts a slice over tensor parallelism: of each of block_count blocks of block_size elements a part has an equal share.
void model_slice_cut(const struct model_place *place, size_t block_count, size_t block_size, struct model_slice *slice);

// The slice of the same parameter that another part of tensor parallelism has, where it is cut.
struct model_slice model_slice_at(const struct model_slice *slice, int tensor);

// The exchanges of the embedding and the head over blocks of the vocabulary, with and without sequence parallelism. The
// stream has stream_elements; `again`: forward is computed a second time.
struct model_exchange model_exchange_of_embedding(size_t stream_elements, bool backward);
struct model_exchange model_exchange_of_head(size_t rows, size_t stream_elements, bool backward, bool again);

// Leaves what is exchanged with sequence parallelism, of which a rank has own_elements of the stream, or, 0, without.
void model_exchange_divide(struct model_exchange *e, size_t own_elements);

// Copies a slice's elements out of the whole parameter, or into it.
void model_slice_take(const struct model_slice *slice, const void *whole, size_t element_bytes, void *out);
void model_slice_put(const struct model_slice *slice, const void *from, size_t element_bytes, void *whole);

// The elements of a slice from *at on, up to `end`, that follow each other in the whole parameter: `count` of them, of
// which the first has index *index there. Advances *at behind them; returns false at the end.
bool model_slice_next(const struct model_slice *slice, size_t end, size_t *at, size_t *index, size_t *count);

// The elements of a slice, and where element i of the slice lies in the whole parameter.
size_t model_slice_count(const struct model_slice *slice);
size_t model_slice_index(const struct model_slice *slice, size_t i);
