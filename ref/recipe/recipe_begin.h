// SPDX-License-Identifier: Apache-2.0
// The functions of recipe_begin_step that compute each family's scalars. t counts from 1.
#pragma once

#include "ref/recipe/recipe_types.h"

// Returns DECAY_NONE unless weight decay is active, else the form that the hyper-parameters name.
static inline enum recipe_decay recipe_decay_of(const struct adam_hyper *hyper, bool active)
{
    return !active ? DECAY_NONE : hyper->decoupled ? DECAY_DECOUPLED : DECAY_L2;
}

// PyTorch counts steps by adding 1 to an fp32 number, which stays at 2^24 when it gets there.
static inline double recipe_torch_step(uint64_t t)
{
    return t < 1u << 24 ? (double)t : 0x1p24;
}

// Replaces the scalars in which PyTorch's forms on a GPU differ from its form on a CPU, which *out holds on entry.
void recipe_begin_torch_cuda(enum recipe_family family, const struct adam_hyper *hyper, uint64_t t,
                             struct adam_scalars *out);

void recipe_begin_deepspeed(const struct adam_hyper *hyper, uint64_t t, struct recipe_state *state,
                            struct adam_scalars *out);

void recipe_begin_apex(const struct adam_hyper *hyper, uint64_t t, struct adam_scalars *out);
