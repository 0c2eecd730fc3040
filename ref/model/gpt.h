// SPDX-License-Identifier: Apache-2.0
// GPT-2 in any shape: token and position embeddings, pre-LN blocks, a head tied to the token embedding.
#pragma once

#include "ref/model/lora/lora.h"
#include "ref/model/model.h"

#include <stddef.h>

enum {
    GPT_NAME_BYTES = 160,
    GPT_LAYERS_MAX = 1000,
    GPT_SIZE_MAX = 1 << 18,
    GPT_TILES_MAX = 1024,
    GPT_EXPERTS_MAX = 128
};

// A mixture of experts in the place of each block's MLP (gpt_experts.c).
struct gpt_experts {
    size_t count;                 // 0: a plain MLP
    size_t top;                   // experts of a token: 1 or 2
    size_t capacity_thousandths;  // slots of an expert: capacity x top x tokens / experts
    size_t aux_loss_thousandths;  // coefficient of the loss that balances them (gpt_route.h); 0: there is none
};

struct gpt_shape {
    size_t block_count;
    size_t width;  // channels of the residual stream; a multiple of head_count
    size_t head_count;
    size_t sequence_length;
    size_t vocabulary;
    size_t tile_count;  // parts of each block's MLP; a divisor of 4 x width
    size_t
        product_blocks;  // blocks of heads, of the MLP's hidden channels and of the vocabulary; 1: products are whole
    size_t sequence_parallel;  // 1: as many blocks of each sequence's positions, too; 0: there are none
    struct lora lora;          // adapters of a block's modules: attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj
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
// With experts a block's MLP is h.0.mlp.router.weight and, for each expert, h.0.mlp.experts.0.c_fc.{weight,bias} and
// h.0.mlp.experts.0.c_proj.{weight,bias}. A part of expert parallelism (part.h) has some of the experts. Adapters
// belong to attention's modules alone. ERR_USAGE for experts with tiles, and for adapters of experts.
//
// With more than one product block, a power of two, products are made block by block (gpt_cut.h): c_attn by blocks of
// heads, c_fc of hidden channels, the head of the vocabulary, each block's columns by themselves; and the products over
// heads, hidden channels and vocabulary are sums over blocks, folded as a balanced binary tree. So a rank of tensor
// parallelism that has some of the blocks computes what one rank alone would, bit by bit (part.h). Parameters and
// initial values are the same for any number of blocks; the last bits of products are not.
//
// With sequence parallelism a part has the rows of its blocks of positions alone between the products that are cut
// (gpt_sequence.c), and sums over these rows, the gradients of layer norms and of the biases of c_proj, are balanced
// trees over blocks as well, on one rank as on several. All else has the bits of the model without it.
//
// With adapters all parameters but these are frozen, and keep their initial values. A tile is no module that an adapter
// could belong to: ERR_USAGE for both.
int gpt_make(const char *name, const struct gpt_shape *shape, struct model **out);

// Null-safe.
void gpt_free(struct model *model);
