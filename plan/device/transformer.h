// SPDX-License-Identifier: Apache-2.0
// The sizes of a transformer, which decide what a GPU computes and keeps. Widths are channels of one token.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct transformer {
    size_t blocks, width, vocabulary, sequence_length;
    size_t query_width, key_width, value_width;  // of all heads
    size_t output_width;                         // attention's output, before its last product
    size_t query_latent, key_latent;  // multi-head latent attention: widths from which queries, and keys and values,
                                      // are projected; 0: from the block's own width
    double attended_length;           // twice the keys of a token, on average over tokens and blocks
    size_t hidden;                    // of one MLP
    size_t mlp_matrices;              // 2: up and down; 3: gate, up and down
    size_t experts, experts_used;     // MLPs of a block, and those that one token uses; 1, 1: dense
    size_t expert_ranks;              // of tensor parallelism that divide the tokens of experts; 0: one
    size_t shared_hidden;             // of the MLP that every token passes in addition to its experts
    size_t sequence_ranks;            // among which sequence parallelism divides what is kept between products; 0: one
    size_t context_ranks;  // among which context parallelism divides a sequence; 0: one. The tokens above are
                           // a rank's, attended_length is of the whole sequence
    bool is_frozen;        // adapters are trained: no gradients of the weights
};

// Hidden values of a token in a rank's experts.
static inline size_t transformer_expert_values(const struct transformer *t)
{
    return t->hidden * t->experts_used / (t->expert_ranks > 1 ? t->expert_ranks : 1);
}

// Values per token that a block keeps for backward, with flash attention: the inputs of its two norms, of its products,
// of attention and of the activation function (Korthikanti et al., arXiv 2205.05198, section 4.1, without dropout). In
// device_memory.c.
size_t transformer_kept_values(const struct transformer *t);
