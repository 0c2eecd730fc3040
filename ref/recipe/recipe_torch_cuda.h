// SPDX-License-Identifier: Apache-2.0
// The forms of PyTorch's Adam on a GPU. All of them have FUSE_GRADIENT only.
#pragma once

#include "ref/recipe/recipe_types.h"

// Updates both moments and returns the parameter after decay; common to the unfused forms.
RECIPE_INLINE float recipe_torch_cuda_moments(const struct adam_scalars *s, float g, float p, float *m, float *v)
{
    if (s->decay == DECAY_L2)
        g = fmaf(s->decay_l2, p, g);
    if (s->decay == DECAY_DECOUPLED)
        p = p * s->decay_decoupled;
    *m = fmaf(s->m_take, g - *m, s->from_gradient ? g : *m);
    *v = fmaf(s->v_take, g * g, *v * s->v_keep);
    return p;
}

// The foreach form divides by bias2. The capturable single form has step size 1: its learning rate is part of the
// denominator's scalars.
RECIPE_INLINE void recipe_torch_cuda_foreach_element(const struct adam_scalars *s, float g, float *p, float *m,
                                                     float *v)
{
    float parameter = recipe_torch_cuda_moments(s, g, *p, m, v);
    float denominator = sqrtf(*v) / s->bias2 + s->eps;
    *p = fmaf(s->step_size, *m / denominator, parameter);
}

// PyTorch divides a tensor by a host number by multiplying with the reciprocal, so bias2 is a factor.
RECIPE_INLINE void recipe_torch_cuda_single_element(const struct adam_scalars *s, float g, float *p, float *m, float *v)
{
    float parameter = recipe_torch_cuda_moments(s, g, *p, m, v);
    float denominator = sqrtf(*v) * s->bias2 + s->eps;
    *p = fmaf(s->step_size, *m / denominator, parameter);
}

// The step size divides the denominator.
RECIPE_INLINE void recipe_torch_capturable_foreach_element(const struct adam_scalars *s, float g, float *p, float *m,
                                                           float *v)
{
    float parameter = recipe_torch_cuda_moments(s, g, *p, m, v);
    float denominator = (sqrtf(*v) / s->bias2 + s->eps) / s->step_size;
    *p = parameter + *m / denominator;
}

// Multiplies by hyper-parameters in double and rounds each sum to fp32. The step size is positive.
RECIPE_INLINE void recipe_torch_cuda_fused_element(const struct adam_scalars *s, float g, float *p, float *m, float *v)
{
    const struct adam_wide *wide = &s->wide;
    float parameter = *p;
    if (s->decay == DECAY_L2)
        g = (float)fma((double)parameter, wide->decay_l2, (double)g);
    if (s->decay == DECAY_DECOUPLED)
        parameter = (float)fma(wide->decay_decoupled, (double)parameter, (double)parameter);
    float moment = (float)fma((double)*m, wide->m_keep, wide->m_take * (double)g);
    float square = (float)fma((double)*v, wide->v_keep, wide->v_take * (double)g * (double)g);
    float denominator = (float)((double)(sqrtf(square) / s->bias2) + wide->eps);
    *p = parameter - s->step_size * moment / denominator;
    *m = moment;
    *v = square;
}

// old x keep + new_value x (1 - keep)
RECIPE_INLINE float recipe_interpolate(float old, float keep, float new_value)
{
    return fmaf(old, keep, fmaf(new_value, -keep, new_value));
}

// The step size is positive.
RECIPE_INLINE void recipe_torch_cuda_fused_fp32_element(const struct adam_scalars *s, float g, float *p, float *m,
                                                        float *v)
{
    float parameter = *p;
    if (s->decay == DECAY_L2)
        g = fmaf(parameter, s->decay_l2, g);
    if (s->decay == DECAY_DECOUPLED)
        parameter = fmaf(parameter, s->decay_decoupled, parameter);
    float moment = recipe_interpolate(*m, s->m_keep, g);
    float square = recipe_interpolate(*v, s->v_keep, g * g);
    float denominator = sqrtf(square) / s->bias2 + s->eps;
    *p = parameter - moment * s->step_size / denominator;
    *m = moment;
    *v = square;
}
