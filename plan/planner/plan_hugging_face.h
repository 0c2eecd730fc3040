// SPDX-License-Identifier: Apache-2.0
// Shapes from a Hugging Face config.json: the Llama family, dense or with experts (Llama, Mistral, Mixtral, Qwen2,
// Qwen3, Gemma, GPT-OSS, DeepSeek-V2 and V3, Phi-3, OLMo 2, Granite).
#ifndef ZG_PLAN_HUGGING_FACE_H
#define ZG_PLAN_HUGGING_FACE_H

#include "base/strict_json.h"
#include "plan/planner/plan_llama.h"

// True for a file of this kind, by its key model_type.
bool plan_is_hugging_face(const struct strict_object *object);

// Biases and norms within attention follow from the type; Phi-3, OLMo 2 and Granite are taken without. DeepSeek-V3 is
// without its blocks for multi-token prediction. ERR_USAGE names a key that is
// missing or out of range, or the type of a model of another kind.
int plan_hugging_face_shape(const struct strict_object *object, struct llama_shape *out);

#endif
