// SPDX-License-Identifier: Apache-2.0
// Shapes of the Llama family, dense or with experts, for plans only; ref/model/llama/llama.h has those that can be
// trained.
#pragma once

#include "base/strict_json.h"
#include "plan/device/transformer.h"
#include "ref/model/model.h"

#include <stdbool.h>

// The largest sizes that a file may give. LLAMA_SIZE_MAX is also of all heads' channels together.
enum { LLAMA_LAYERS_MAX = 1000, LLAMA_SIZE_MAX = 1 << 20, LLAMA_VOCABULARY_MAX = 1 << 24, LLAMA_EXPERTS_MAX = 1024 };

struct llama_shape {
    size_t blocks, width, heads, head_width, key_heads, hidden, vocabulary, sequence_length;
    size_t experts, experts_used;       // experts of a block, and those that one token uses; 0, 0: a dense MLP
    size_t dense_blocks, dense_hidden;  // the first blocks of a model with experts that have a dense MLP, and its width
    size_t shared_hidden;               // of the MLP that every token passes in addition to its experts; 0: none
    // Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values come from a latent vector of
    // key_latent channels, 0: none; queries from one of query_latent, 0: from the block's input. head_width is then a
    // head's without its rope_width channels of positions, and value_width that of a head's values.
    size_t key_latent, query_latent, rope_width, value_width;
    size_t window, window_period;  // tokens that a block attends to; every window_period-th block, 0: none, to all
    size_t block_norms;            // of the block's width; 0: 2
    bool head_norms;               // norms of queries and keys over a head's width
    bool key_biases, output_bias, mlp_biases;  // of queries, keys and values; of the matrix behind them; of MLPs
    bool sinks;                                // an attention sink for each head
    bool router_bias;
    size_t lora_rank;  // of adapters at each matrix of a block, which alone are trained; 0: none
    bool tied_head;    // the head uses the token embedding
};

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

// *out lives as long as the process, and name must too. ERR_MEMORY.
int plan_llama_make(const char *name, const struct llama_shape *shape, struct model **out);

// The sizes of a model that plan_llama_make made, or of one of ref/model/llama/llama.h; false for others.
bool plan_llama_transformer(const struct model *model, struct transformer *out);

// Shapes from a Hugging Face config.json: the Llama family, dense or with experts (Llama, Mistral, Mixtral, Qwen2,
// Qwen3, Gemma, GPT-OSS, DeepSeek-V2 and V3, Kimi K2, GLM-4.5, Phi-3, OLMo 2, Granite), and of a model of text and
// images (one with a `text_config`) the text model alone.

// True for a file of this kind, by its key model_type.
bool plan_is_hugging_face(const struct strict_object *object);

// Norms within attention follow from the type, biases from it or from the file; Phi-3, OLMo 2 and Granite are taken
// without norms. Blocks for multi-token prediction (DeepSeek-V3, GLM-4.5) are left out. ERR_USAGE names a key that is
// missing or out of range, or the type of a model of another kind.
int plan_hugging_face_shape(const struct strict_object *object, struct llama_shape *out);

// Reads a number from 1 to high.
int plan_read_size(const struct strict_object *object, const char *key, int64_t high, size_t *out);

// As plan_model_dtype.
const char *plan_hugging_face_dtype(const struct strict_object *object);
