// SPDX-License-Identifier: Apache-2.0
// GPT-2 in any shape: token and position embeddings, pre-LN blocks, a head tied to the token embedding.
#ifndef ZG_GPT_H
#define ZG_GPT_H

#include "ref/model/lora.h"
#include "ref/model/model.h"

#include <stddef.h>

enum {
    GPT_NAME_BYTES = 160,
    GPT_LAYERS_MAX = 1000,
    GPT_SIZE_MAX = 1 << 18,
    GPT_TILES_MAX = 1024,
    GPT_EXPERTS_MAX = 128
};

// A mixture of experts in the place of each block's MLP (gpt_experts.c). The model holds the experts [first, first +
// held); a whole model holds all, and a part those of one rank of expert parallelism.
struct gpt_experts {
    size_t count;                 // 0: a plain MLP
    size_t top;                   // experts of a token: 1 or 2
    size_t capacity_thousandths;  // slots of an expert: capacity x top x tokens / experts
    size_t first, held;
};

struct gpt_shape {
    size_t block_count;
    size_t width;  // channels of the residual stream; a multiple of head_count
    size_t head_count;
    size_t sequence_length;
    size_t vocabulary;
    size_t tile_count;  // parts of each block's MLP; a divisor of 4 x width
    struct lora lora;   // adapters of a block's modules: attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj
    struct gpt_experts experts;
};

// Makes a model with the layers "embedding", "h.0" ..., "head". Parameters have the names, shapes and order of GPT-2's
// checkpoints (weights are input x output). All are trainable and in group 0. The caller frees *out with gpt_free after
// closing all of its runs.
//
// With more than one tile (ZeRO-Infinity's memory-centric tiling: a large linear layer as a sequence of smaller ones) a
// block is several layers, "h.0.attn", "h.0.mlp.tile.0", ...; tile t has the columns h.0.mlp.tile.t.c_fc.{weight,bias}
// of c_fc, and the rows h.0.mlp.tile.t.c_proj.weight of c_proj, whose bias the first tile adds. Initial values equal
// the whole matrices', so that training begins with the same function for any number of tiles.
//
// With experts a block's MLP is h.0.mlp.router.weight and, for each expert that the model holds,
// h.0.mlp.experts.0.c_fc.{weight,bias} and h.0.mlp.experts.0.c_proj.{weight,bias}. held 0: all of them. ERR_USAGE for
// experts beside tiles or adapters.
//
// With adapters all parameters but these are frozen, and keep their initial values. A tile is no module that an adapter
// could belong to: ERR_USAGE for both.
int gpt_make(const char *name, const struct gpt_shape *shape, struct model **out);

// Null-safe.
void gpt_free(struct model *model);

#endif
