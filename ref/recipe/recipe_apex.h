// SPDX-License-Identifier: Apache-2.0
// FusedAdam of Apex, DeepSpeed and Transformer Engine on a GPU corrects m and v themselves and applies decay and
// learning rate last.
#pragma once

#include "ref/recipe/recipe_types.h"

// bias1 and bias2 are divisors of m and v.
RECIPE_INLINE void recipe_apex_element(enum recipe_fusion fusion, const struct adam_scalars *s, float g, float *p,
                                       float *m, float *v)
{
    float parameter = *p;
    if (s->decay == DECAY_L2)
        g = recipe_multiply_add(fusion, parameter, s->decay_l2, g);
    float moment = recipe_weigh(fusion, *m, s->m_keep, s->m_take, g);
    float square = recipe_weigh(fusion, *v, s->v_keep, s->v_take * g, g);
    float update = moment / s->bias1 / (sqrtf(square / s->bias2) + s->eps);
    if (s->decay == DECAY_DECOUPLED)
        update = recipe_multiply_add(fusion, parameter, s->decay_decoupled, update);
    *p = recipe_multiply_add(fusion, update, s->step_size, parameter);
    *m = moment;
    *v = square;
}
