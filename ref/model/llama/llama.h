// SPDX-License-Identifier: Apache-2.0
// Llama in any shape (Touvron et al., arXiv 2302.13971, section 2.2): "pre-normalization" by RMSNorm, "SwiGLU
// activation function", "rotary embeddings", with grouped-query attention (arXiv 2305.13245), no biases and a head of
// its own. Its passes compute in host memory, and it has no parts, tiles, experts or adapters.
#pragma once

#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

struct llama_sizes {
    size_t layers;
    size_t width;     // channels of the residual stream; a multiple of heads, and of those an even one
    size_t heads;     // of queries
    size_t kv_heads;  // of keys and values; a divisor of heads
    size_t hidden;    // channels of the MLP
    size_t vocabulary, length;
};

// Makes a model with the layers "embedding", "layers.0" ..., "head". Parameters have the names, shapes and order that
// transformers' LlamaForCausalLM gives them (weights are output x input). All are trainable and in group 0. The caller
// frees *out with llama_free after closing all of its runs.
int llama_make(const char *name, const struct llama_sizes *sizes, struct model **out);

// Null-safe.
void llama_free(struct model *model);

// The sizes of a Llama of this header; null for any other model.
const struct llama_sizes *llama_sizes_of(const struct model *model);

// The names of the known Llamas; NULL past the last.
const char *llama_name(int index);

// True if the name up to a colon is a known Llama's or "llama", which is short for llama-tiny.
bool llama_is_name(const char *name);

// Finds the model of such a name, which lives until the process ends. KEY=NUMBER,... may follow a colon, with keys of
// layers, width, heads, kv_heads, hidden, vocabulary, length. ERR_USAGE names the wrong key and the expected form.
int llama_find(const char *name, const struct model **out);
