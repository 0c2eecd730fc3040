// SPDX-License-Identifier: Apache-2.0
// Shapes of the Llama family, dense or with experts, for plans only: such a model cannot be trained here.
#ifndef ZG_PLAN_LLAMA_H
#define ZG_PLAN_LLAMA_H

#include "plan/device/transformer.h"
#include "ref/model/model.h"

#include <stdbool.h>

// The largest sizes that a file may give. LLAMA_SIZE_MAX is also of all heads' channels together.
enum { LLAMA_LAYERS_MAX = 1000, LLAMA_SIZE_MAX = 1 << 20, LLAMA_VOCABULARY_MAX = 1 << 24, LLAMA_EXPERTS_MAX = 1024 };

struct llama_shape {
    size_t blocks, width, heads, head_width, key_heads, hidden, vocabulary, sequence_length;
    size_t experts, experts_used;  // experts of a block, and those that one token uses; 0, 0: a dense MLP
    size_t lora_rank;              // of adapters at each matrix of a block, which alone are trained; 0: none
    bool tied_head;                // the head uses the token embedding
};

// *out lives as long as the process, and name must too. ERR_MEMORY.
int plan_llama_make(const char *name, const struct llama_shape *shape, struct model **out);

// The sizes of a model that plan_llama_make made; false for others.
bool plan_llama_transformer(const struct model *model, struct transformer *out);

#endif
