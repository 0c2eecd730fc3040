// SPDX-License-Identifier: Apache-2.0
// Shapes of decoders, for plans only: blocks of attention, of a state space or of both, with an MLP that is dense or a
// mixture of experts. ref/model has the GPTs and Llamas that can be trained.
#pragma once

#include "plan/device/transformer.h"
#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

// The largest sizes that a file may give. DECODER_SIZE_MAX is also of all heads' channels together.
enum {
    DECODER_BLOCKS_MAX = 1000,
    DECODER_SIZE_MAX = 1 << 20,
    DECODER_LENGTH_MAX = 1 << 24,
    DECODER_VOCABULARY_MAX = 1 << 24,
    DECODER_EXPERTS_MAX = 1024
};

enum decoder_mlp { DECODER_MLP_DENSE, DECODER_MLP_EXPERTS, DECODER_MLP_NONE };

struct decoder_block {
    bool has_no_attention, has_state;  // both mixers: side by side
    enum decoder_mlp mlp;
    size_t window;  // tokens that attention is over; 0: all
    bool is_chunk;  // the window does not slide: the sequence is cut into such windows
};

// A state space or linear attention: a matrix from the block's width, a convolution over tokens, a state for each head,
// and a matrix back to the width.
struct decoder_state {
    size_t in_rows, out_columns;
    size_t steps_rows, steps_columns;  // two matrices between them, from the heads' channels to a vector that sets the
                                       // size of a step, and from there to the channels (Mamba, arXiv 2312.00752)
    size_t heads;                      // that tensor parallelism divides
    size_t head_values, other_values;  // of vectors, convolutions and biases: those that the heads divide, and others
    double operations;                 // of a token with the state and the convolution
};

struct decoder_shape {
    size_t blocks, width, vocabulary, sequence_length;
    size_t heads, head_width, key_heads;
    // Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values come from a latent vector of
    // key_latent channels, 0: none; queries from one of query_latent, 0: from the block's input. head_width is then a
    // head's without its rope_width channels of positions, and value_width that of a head's values.
    size_t key_latent, query_latent, rope_width, value_width;
    bool gated_output;  // each channel of attention's output has a gate, from a matrix as the queries'
    bool key_biases, output_bias, latent_biases, mlp_biases;  // of queries, keys and values; of the matrix behind them;
                                                              // of the latent vectors' matrices; of MLPs
    size_t head_norms;                                        // elements of the norms of a block's queries and keys
    bool sinks;                                               // an attention sink for each head
    size_t hidden, mlp_matrices;                              // of a dense MLP; 2: up and down; 3: gate, up and down
    size_t mlp_values;                                        // of a dense MLP's activation function
    size_t experts, experts_used;                             // of a block, and those that one token uses
    size_t expert_hidden;
    size_t shared_hidden;  // of the MLP that every token passes in addition to its experts; 0: none
    bool shared_gate, router_bias, expert_biases;
    size_t block_norms, norm_vectors;  // norms of a block; 2: with weight and bias, 1: with weight, 0: with neither
    bool embedding_norm, no_final_norm;
    bool is_parallel;        // attention and MLP have the same input
    size_t positions;        // of a table of positions; 0: none
    size_t embedding_width;  // of tokens; 0: the blocks' width
    bool tied_head, head_bias;
    struct decoder_state state;
    size_t lora_rank;        // of adapters at each matrix of a block, which alone are trained; 0: none
    size_t context_ranks;    // that divide a sequence among them, and send each other its keys and values, where
                             // possible; 0: one
    bool sequence_parallel;  // ranks of tensor parallelism divide the sequence between products (arXiv 2205.05198)
    bool whole_experts;      // and have other experts each, in place of slices of them
    struct decoder_block block[DECODER_BLOCKS_MAX];
};

static inline size_t decoder_query_width(const struct decoder_shape *s)
{
    return s->heads * (s->head_width + s->rope_width);
}

// With latent attention every head has keys and values of its own.
static inline size_t decoder_key_width(const struct decoder_shape *s)
{
    return s->key_latent > 0 ? decoder_query_width(s) : s->key_heads * s->head_width;
}

static inline size_t decoder_value_width(const struct decoder_shape *s)
{
    return s->key_latent > 0 ? s->heads * s->value_width : s->key_heads * s->head_width;
}

// The ranks of tensor parallelism that have the same head of keys and values. Megatron-LM
// (core/transformer/attention.py, num_query_groups < world_size) cuts the projection all the same, gathers its outputs,
// and each rank takes one head.
static inline size_t decoder_key_copies(const struct decoder_shape *s, size_t tensor_parts)
{
    return s->key_latent == 0 && s->key_heads > 0 && tensor_parts > s->key_heads ? tensor_parts / s->key_heads : 1;
}

static inline size_t decoder_output_width(const struct decoder_shape *s)
{
    return s->heads * (s->key_latent > 0 ? s->value_width : s->head_width);
}

// Makes a model with the layers "embedding", "layers.0" ..., "head". *out lives as long as the process, and name must
// too. ERR_MEMORY.
int decoder_make(const char *name, const struct decoder_shape *shape, struct model **out);

// The sizes of a model that decoder_make made, or of a part of one (part.h), on average over its blocks: the vocabulary
// also where the part has no head. False for other models.
bool decoder_transformer(const struct model *model, struct transformer *out);

// Blocks of a stage of a pipeline. Where the stages do not divide the blocks, the embedding and the head count as a
// block each, and the first stages have one more than the others: torchtitan's default
// (distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part), and Llama 3's 126 blocks on 16 stages
// (arXiv 2407.21783, section 3.3.2).
size_t decoder_stage_blocks(size_t blocks, size_t stages, size_t stage);
