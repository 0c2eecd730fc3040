// SPDX-License-Identifier: Apache-2.0
// Shapes of the Llama family, dense or with experts, for plans only; ref/model/llama/llama.h has those that can be
// trained.
#ifndef ZG_PLAN_LLAMA_H
#define ZG_PLAN_LLAMA_H

#include "plan/device/transformer.h"
#include "plan/planner/plan_llama_shape.h"
#include "ref/model/model.h"

#include <stdbool.h>

// *out lives as long as the process, and name must too. ERR_MEMORY.
int plan_llama_make(const char *name, const struct llama_shape *shape, struct model **out);

// The sizes of a model that plan_llama_make made, or of one of ref/model/llama/llama.h; false for others.
bool plan_llama_transformer(const struct model *model, struct transformer *out);

#endif
