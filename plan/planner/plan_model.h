// SPDX-License-Identifier: Apache-2.0
// Models to plan: those that can be trained here, and shapes from files (datasets/models.json), which cannot.
#pragma once

#include "plan/device/transformer.h"
#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

// By name: a compiled-in model of datasets/models.json ("llama-70b"), a model of model_find ("gpt2-124m",
// "gpt:layers=4,..."), or the path of a file. tiling_factor as in model_find_changed. The model lives as long as the
// process. ERR_USAGE lists the names, or names FILE:LINE: KEY.
int plan_model_find(const char *name, size_t tiling_factor, const struct model **out);

// How a model from a file is changed; 0: not.
struct plan_model_variant {
    size_t tiling_factor;    // as above
    size_t sequence_length;  // tokens
    size_t lora_rank;        // of adapters at every matrix of the blocks; all other weights are frozen
    size_t tensor;           // ranks that cut each layer: a GPT has as many product blocks. Its vocabulary, and another
                             // model's that they do not divide, is padded as in Megatron-LM (arguments.py,
                             // make_vocab_size_divisible_by), to a multiple of 128 each
    size_t sequence_parallel;  // 1: these ranks divide the sequence, too (ref/model/gpt.h)
    size_t context;            // ranks that divide a sequence among them; 0: one
    size_t whole_experts;      // 1: ranks of tensor parallelism have other experts each, in place of slices
    const char *lora;          // adapters as in model_find_changed, of models of model_find alone; null: none
};

// The same for a variant. Only models from files have sequence lengths to choose.
int plan_model_find_variant(const char *name, const struct plan_model_variant *variant, const struct model **out);

// The sizes of a transformer, or of a part of one (part.h), the vocabulary also where the part has no head; false for
// models that are no transformers.
bool plan_model_transformer(const struct model *model, struct transformer *out);

// Tokens of a sequence, of which a rank of context parallelism has a part.
size_t plan_model_length(const struct model *model);

// The names of the compiled-in shapes in alphabetical order; null past the end.
const char *plan_model_name(size_t index);

// The source that the model's file gives; "" for models without a file.
const char *plan_model_source(const struct model *model);

// The parameter count in the source's own form ("46.7B", or all digits); "" if the file has none.
const char *plan_model_parameters(const struct model *model);

// The dtype that a config.json of Hugging Face names for its weights: "fp32", "fp16" or "bf16"; null if none does.
const char *plan_model_dtype(const struct model *model);

// Lines about what a plan leaves out of the model's file, or does not know; "" if there are none.
const char *plan_model_notes(const struct model *model);
