// SPDX-License-Identifier: Apache-2.0
// The scalars of each family's step, for recipe_begin_step. t counts from 1.
#ifndef ZG_RECIPE_INTERNAL_H
#define ZG_RECIPE_INTERNAL_H

#include "ref/recipe/recipe.h"

// DECAY_NONE unless active.
enum recipe_decay recipe_decay_of(const struct adam_hyper *hyper, bool active);

// The step as PyTorch counts it.
double recipe_torch_step(uint64_t t);

// Replaces those scalars of PyTorch's form on a CPU that a form on a GPU has otherwise.
void recipe_begin_torch_cuda(enum recipe_family family, const struct adam_hyper *hyper, uint64_t t,
                             struct adam_scalars *out);

void recipe_begin_deepspeed(const struct adam_hyper *hyper, uint64_t t, struct recipe_state *state,
                            struct adam_scalars *out);

void recipe_begin_apex(const struct adam_hyper *hyper, uint64_t t, struct adam_scalars *out);

#endif
