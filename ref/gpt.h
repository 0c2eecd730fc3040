// SPDX-License-Identifier: Apache-2.0
// GPT-2 in any shape: token and position embeddings, pre-LN blocks, a head tied to the token embedding.
#ifndef ZG_GPT_H
#define ZG_GPT_H

#include "model.h"

#include <stddef.h>

struct gpt_shape {
    size_t layer_count;
    size_t width;  // channels; a multiple of head_count
    size_t head_count;
    size_t sequence_length;
    size_t vocabulary;
};

// Units: "embedding", "h.0" ..., "head". Parameters have the names, shapes and order of GPT-2's checkpoints (weights
// are input x output). All are trainable and in group 0. *out is freed with gpt_free, after every run of it.
int gpt_make(const char *name, const struct gpt_shape *shape, struct model **out);

// Null-safe.
void gpt_free(struct model *model);

#endif
