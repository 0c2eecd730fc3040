// SPDX-License-Identifier: Apache-2.0
// GPT-2 in any shape: token and position embeddings, pre-LN blocks, a head tied to the token embedding.
#ifndef ZG_GPT_H
#define ZG_GPT_H

#include "ref/model/model.h"

#include <stddef.h>

enum { GPT_NAME_BYTES = 160, GPT_LAYERS_MAX = 1000, GPT_SIZE_MAX = 1 << 18, GPT_TILES_MAX = 1024 };

struct gpt_shape {
    size_t block_count;
    size_t width;  // channels; a multiple of head_count
    size_t head_count;
    size_t sequence_length;
    size_t vocabulary;
    size_t tile_count;  // parts of each block's MLP; a divisor of 4 x width
};

// Layers: "embedding", "h.0" ..., "head". Parameters have the names, shapes and order of GPT-2's checkpoints (weights
// are input x output). All are trainable and in group 0. *out is freed with gpt_free, after every run of it.
//
// With more than one tile ("memory-centric tiling": a large linear layer as a sequence of smaller ones) a block is
// several layers, "h.0.attn", "h.0.mlp.tile.0", ...; tile t has the columns h.0.mlp.tile.t.c_fc.{weight,bias} of c_fc,
// and the rows h.0.mlp.tile.t.c_proj.weight of c_proj, whose bias the first tile adds. Initial values are those of the
// whole matrices, so that whatever the tiles, training begins with the same function.
int gpt_make(const char *name, const struct gpt_shape *shape, struct model **out);

// Null-safe.
void gpt_free(struct model *model);

#endif
