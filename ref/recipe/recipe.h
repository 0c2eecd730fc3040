// SPDX-License-Identifier: Apache-2.0
// A recipe is the exact sequence of IEEE operations of one implementation of Adam. Implementations differ in the order
// of operations, in which product a fused multiply-add keeps exact, in where epsilon and the bias corrections enter,
// and in which values they compute in double. recipe_begin_step computes the scalars of a step on the host; inline
// functions, valid as C and as CUDA, update one element. Compilers must not contract: -ffp-contract=off, --fmad=false.
//
// This file holds the default family, PyTorch on a CPU: Adam (arXiv:1412.6980) and AdamW (arXiv:1711.05101) as most
// programs compute them. A reader who wants only ZeRO needs no other. A new family takes a value of enum
// recipe_family, an element function in its own header, a case in recipe_family_element, its scalars in
// recipe_begin_step, a row in the table of recipe.c, and an independent statement of the same arithmetic in
// recipe_golden.py.
#pragma once

#include "ref/recipe/recipe_types.h"

#include "ref/recipe/recipe_apex.h"
#include "ref/recipe/recipe_deepspeed.h"
#include "ref/recipe/recipe_torch_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

const struct recipe *recipe_find(const char *name);  // returns null if no recipe has that name
const struct recipe *recipe_at(int index);           // returns null past the end; recipe 0 is the default
const char *recipe_name(const struct recipe *recipe);

// Computes the scalars of step t, which counts from 1, and advances the state. Returns ERR_USAGE if t is 0 or the
// recipe does not support the hyper-parameters.
int recipe_begin_step(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                      struct recipe_state *state, struct adam_scalars *out);

// Returns the index of the first element of the tensor's tail.
RECIPE_INLINE size_t recipe_tail_start(const struct recipe *recipe, size_t tensor_count)
{
    return recipe->lanes ? tensor_count - tensor_count % recipe->lanes : tensor_count;
}

// PyTorch's Adam on a CPU: m moves towards g by 1 - beta1, the bias corrections are divisors, and epsilon is added to
// the corrected root.
RECIPE_INLINE void recipe_torch_element(enum recipe_fusion fusion, const struct adam_scalars *s, float g, float *p,
                                        float *m, float *v)
{
    float parameter = *p;
    if (s->decay == DECAY_L2)
        g = recipe_multiply_add(fusion, parameter, s->decay_l2, g);
    if (s->decay == DECAY_DECOUPLED)
        parameter = parameter * s->decay_decoupled;
    float moment = recipe_multiply_add(fusion, s->m_take, g - *m, s->from_gradient ? g : *m);
    float square = recipe_weigh(fusion, *v, s->v_keep, s->v_take * g, g);
    float denominator = sqrtf(square) / s->bias2 + s->eps;
    *p = parameter + s->step_size * moment / denominator;
    *m = moment;
    *v = square;
}

// Updates *p, *m and *v of one element from its gradient g.
RECIPE_INLINE void recipe_family_element(enum recipe_family family, enum recipe_fusion fusion,
                                         const struct adam_scalars *scalars, float g, float *p, float *m, float *v)
{
    switch (family) {
    case RECIPE_TORCH:
        recipe_torch_element(fusion, scalars, g, p, m, v);
        break;
    case RECIPE_DEEPSPEED:
        recipe_deepspeed_element(fusion, scalars, g, p, m, v);
        break;
    case RECIPE_TORCH_CUDA_FOREACH:
    case RECIPE_TORCH_CAPTURABLE_SINGLE:
        recipe_torch_cuda_foreach_element(scalars, g, p, m, v);
        break;
    case RECIPE_TORCH_CUDA_SINGLE:
        recipe_torch_cuda_single_element(scalars, g, p, m, v);
        break;
    case RECIPE_TORCH_CUDA_FUSED:
        recipe_torch_cuda_fused_element(scalars, g, p, m, v);
        break;
    case RECIPE_TORCH_CAPTURABLE_FOREACH:
        recipe_torch_capturable_foreach_element(scalars, g, p, m, v);
        break;
    case RECIPE_APEX:
        recipe_apex_element(fusion, scalars, g, p, m, v);
        break;
    case RECIPE_TORCH_CUDA_FUSED_FP32:
        recipe_torch_cuda_fused_fp32_element(scalars, g, p, m, v);
        break;
    case RECIPE_FAMILY_COUNT:
        break;
    }
}

RECIPE_INLINE void recipe_element(const struct recipe *recipe, const struct adam_scalars *scalars, bool tail, float g,
                                  float *p, float *m, float *v)
{
    recipe_family_element(recipe->family, tail ? recipe->tail : recipe->body, scalars, g, p, m, v);
}

#ifdef __cplusplus
}
#endif
