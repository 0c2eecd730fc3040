// SPDX-License-Identifier: Apache-2.0
// Shapes of the Llama family, dense or with experts: what plans need, and no more: such a model cannot be run.
#ifndef ZG_PLAN_LLAMA_H
#define ZG_PLAN_LLAMA_H

#include "ref/model/model.h"

struct llama_shape {
    size_t blocks, width, heads, head_width, key_heads, hidden, vocabulary, sequence_length;
    size_t experts, experts_used;  // of each block's MLP, and by a token; 0, 0: it has one, for all
    bool tied_head;                // the head uses the token embedding
};

// *out lives as long as the process; name outlives it.
int plan_llama_make(const char *name, const struct llama_shape *shape, struct model **out);

#endif
