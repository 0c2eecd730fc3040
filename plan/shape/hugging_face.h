// SPDX-License-Identifier: Apache-2.0
// Shapes from a Hugging Face config.json: the Llama family, dense or with experts (Llama, Mistral, Mixtral, Qwen2,
// Qwen3, Gemma, GPT-OSS, DeepSeek-V2 and V3, Kimi K2, GLM-4.5, Phi-3, OLMo 2, Granite), and of a model of text and
// images (one with a `text_config`) the text model alone.
#pragma once

#include "base/strict_json.h"
#include "plan/shape/decoder.h"

#include <stdbool.h>

// True for a file of this kind, by its key model_type.
bool hugging_face_is(const struct strict_object *object);

// Norms within attention follow from the type, biases from it or from the file; Phi-3, OLMo 2 and Granite are taken
// without norms. Blocks for multi-token prediction (DeepSeek-V3, GLM-4.5) are left out. ERR_USAGE names a key that is
// missing or out of range, or the type of a model of another kind.
int hugging_face_read(const struct strict_object *object, struct decoder_shape *out);

// Reads a number from 1 to high.
int shape_read_size(const struct strict_object *object, const char *key, int64_t high, size_t *out);

// As plan_model_dtype.
const char *hugging_face_dtype(const struct strict_object *object);
