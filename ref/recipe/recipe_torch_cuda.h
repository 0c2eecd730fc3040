// SPDX-License-Identifier: Apache-2.0
// PyTorch's Adam on a GPU, in each of its forms. All have FUSE_GRADIENT only.
#ifndef ZG_RECIPE_TORCH_CUDA_H
#define ZG_RECIPE_TORCH_CUDA_H

#include "ref/recipe/recipe_types.h"

// Of PyTorch's unfused forms on a GPU: the parameter after decay, and both moments.
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

// The foreach form divides by a list of numbers. The capturable single form has 1 as step size: its learning rate lies
// in the denominator's scalars, which are tensors there.
RECIPE_INLINE void recipe_torch_cuda_foreach_element(const struct adam_scalars *s, float g, float *p, float *m,
                                                     float *v)
{
    float parameter = recipe_torch_cuda_moments(s, g, *p, m, v);
    float denominator = sqrtf(*v) / s->bias2 + s->eps;
    *p = fmaf(s->step_size, *m / denominator, parameter);
}

// A tensor divided by one number of the host is multiplied by its reciprocal: bias2 is a factor.
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

// Each product with a hyper-parameter is one of doubles, and rounded to fp32 with the sum that it enters. The step size
// is positive.
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

// old x keep + new x (1 - keep).
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

#endif
