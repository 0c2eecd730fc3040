// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's Adam on a CPU weights both terms of m, multiplies by the reciprocal of the bias correction's root, and
// folds the learning rate into one last multiply-add. bias2 is a factor; decay_decoupled is -lr x weight decay.
#pragma once

#include "ref/recipe/recipe_types.h"

RECIPE_INLINE void recipe_deepspeed_element(enum recipe_fusion fusion, const struct adam_scalars *s, float g, float *p,
                                            float *m, float *v)
{
    float parameter = *p;
    if (s->decay == DECAY_L2)
        g = recipe_multiply_add(fusion, parameter, s->decay_l2, g);
    float moment = recipe_weigh(fusion, *m, s->m_keep, g, s->m_take);
    float square = recipe_weigh(fusion, *v, s->v_keep, g * g, s->v_take);
    float quotient = moment / recipe_multiply_add(fusion, sqrtf(square), s->bias2, s->eps);
    if (s->decay == DECAY_DECOUPLED)
        parameter = recipe_multiply_add(fusion, parameter, s->decay_decoupled, parameter);
    *p = recipe_multiply_add(fusion, quotient, s->step_size, parameter);
    *m = moment;
    *v = square;
}
