// SPDX-License-Identifier: Apache-2.0
// Widths of a block of the Llama family, for plan_llama.c and plan_llama_work.c.
#ifndef ZG_PLAN_LLAMA_SHAPE_H
#define ZG_PLAN_LLAMA_SHAPE_H

#include "plan/planner/plan_llama.h"

enum { LLAMA_MLP_MATRICES = 3 };

extern const struct model_operations llama_operations;

static inline size_t llama_query_width(const struct llama_shape *s)
{
    return s->heads * (s->head_width + s->rope_width);
}

// With latent attention every head has keys and values of its own.
static inline size_t llama_key_width(const struct llama_shape *s)
{
    return s->key_latent > 0 ? llama_query_width(s) : s->key_heads * s->head_width;
}

static inline size_t llama_value_width(const struct llama_shape *s)
{
    return s->key_latent > 0 ? s->heads * s->value_width : s->key_heads * s->head_width;
}

static inline size_t llama_output_width(const struct llama_shape *s)
{
    return s->heads * (s->key_latent > 0 ? s->value_width : s->head_width);
}

static inline bool llama_is_dense(const struct llama_shape *s, size_t block)
{
    return s->experts == 0 || block < s->dense_blocks;
}

// Of the MLPs of a block that one token passes.
static inline size_t llama_used_width(const struct llama_shape *s, size_t block)
{
    if (llama_is_dense(s, block))
        return s->experts > 0 ? s->dense_hidden : s->hidden;
    return s->hidden * s->experts_used + s->shared_hidden;
}

#endif
