// SPDX-License-Identifier: Apache-2.0
// Adam is not one function: implementations differ in the order of operations, in which product a fused multiply-add
// keeps exact, in where epsilon and the bias corrections go, and in what is computed in double. A recipe is one such
// exact sequence of IEEE operations. The element's arithmetic is written once, here, as inline C that is CUDA too; the
// scalars that it takes are made by recipe_begin_step. Compilers must not contract: -ffp-contract=off, --fmad=false.
#ifndef ZG_RECIPE_H
#define ZG_RECIPE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __CUDACC__
#define RECIPE_INLINE __host__ __device__ static inline
#else
#define RECIPE_INLINE static inline
#endif

// Hyper-parameters of one optimizer group, as configured.
struct adam_hyper {
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled; // AdamW; false: Adam with L2
    bool bias_correction;
};

// Ways of writing Adam. PyTorch interpolates m, divides by the bias corrections, adds q; on a GPU it associates the
// second moment and the update differently, and differently again in each of its forms, of which the fused one computes
// in double, or in later versions interpolates both moments. DeepSpeed on a CPU weighs both terms of m, multiplies by a
// reciprocal, and folds the learning rate into one last multiply-add. Apex corrects m and v themselves, and has decay
// and learning rate last.
enum recipe_family {
    RECIPE_TORCH,
    RECIPE_DEEPSPEED,
    RECIPE_TORCH_CUDA_FOREACH,
    RECIPE_TORCH_CUDA_SINGLE,
    RECIPE_TORCH_CUDA_FUSED,
    RECIPE_TORCH_CAPTURABLE_FOREACH,
    RECIPE_TORCH_CAPTURABLE_SINGLE,
    RECIPE_APEX,
    RECIPE_TORCH_CUDA_FUSED_FP32,
    RECIPE_FAMILY_COUNT
};

// Of the two products in moment x beta + gradient term: which one enters the sum unrounded. FUSE_NONE also means that
// no other multiply-add of the recipe is fused. PyTorch's forms on a GPU have FUSE_GRADIENT only.
enum recipe_fusion { FUSE_NONE, FUSE_MOMENT, FUSE_GRADIENT };

enum recipe_decay { DECAY_NONE, DECAY_L2, DECAY_DECOUPLED };

// A row of the table of known implementations.
struct recipe {
    const char *name;
    const char *source;  // the implementation that it reproduces
    const char *version; // of that implementation
    const char *note;    // how far the equality has been checked, and what to know
    enum recipe_family family;
    enum recipe_fusion body;
    // The implementation takes a tensor's elements `lanes` at a time, and the last tensor_count % lanes of them one
    // by one, where its compiler fuses another product: `tail`. 0: there is no such split.
    enum recipe_fusion tail;
    unsigned lanes;
};

// What a recipe carries from step to step, per optimizer group: DeepSpeed's fp32 powers of beta, and the betas and the
// step that they belong to. Starts as zeros.
struct recipe_state {
    float beta1_power, beta2_power;
    float beta1, beta2;
    uint64_t step;
};

// Hyper-parameters of PyTorch's fused form on a GPU, which multiplies by doubles.
struct adam_wide {
    double m_keep, m_take, v_keep, v_take, eps;
    double decay_l2;        // weight decay
    double decay_decoupled; // -lr x weight decay
};

// Everything a step's elements need. The comments give PyTorch's meaning, then DeepSpeed's on a CPU; recipe.c says what
// the other families put there.
struct adam_scalars {
    enum recipe_decay decay;
    bool from_gradient;    // |1 - beta1| >= 0.5: m is interpolated from the gradient's end; not used
    float m_keep;          // not used; beta1
    float m_take;          // 1 - beta1, less 1 if from_gradient; 1 - beta1
    float v_keep;          // beta2; the same
    float v_take;          // 1 - beta2; the same
    float bias1;           // not used
    float bias2;           // sqrt(1 - beta2^t), a divisor; 1 / sqrt(1 - beta2^t), a factor
    float eps;             // the same
    float step_size;       // -lr / (1 - beta1^t); the same
    float decay_l2;        // weight decay; the same
    float decay_decoupled; // 1 - lr x weight decay, a factor; -lr x weight decay
    struct adam_wide wide; // RECIPE_TORCH_CUDA_FUSED only
};

const struct recipe *recipe_find(const char *name); // null: unknown
const struct recipe *recipe_at(int index);          // null: past the end; 0 is the default
const char *recipe_name(const struct recipe *recipe);
const char *recipe_source(const struct recipe *recipe); // implementation it reproduces

// Makes the scalars of step t (from 1) and advances the state. ERR_USAGE when the recipe cannot do what is asked.
int recipe_begin_step(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                      struct recipe_state *state, struct adam_scalars *out);

// Elements from this index of a tensor on are its tail.
RECIPE_INLINE size_t recipe_tail_start(const struct recipe *recipe, size_t tensor_count)
{
    return recipe->lanes ? tensor_count - tensor_count % recipe->lanes : tensor_count;
}

RECIPE_INLINE float recipe_multiply_add(enum recipe_fusion fusion, float a, float b, float c)
{
    return fusion == FUSE_NONE ? a * b + c : fmaf(a, b, c);
}

// moment x keep + a x b
RECIPE_INLINE float recipe_weigh(enum recipe_fusion fusion, float moment, float keep, float a, float b)
{
    if (fusion == FUSE_MOMENT)
        return fmaf(moment, keep, a * b);
    return recipe_multiply_add(fusion, a, b, moment * keep);
}

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

// bias1 and bias2 divide m and v.
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

// One element of one tensor: reads g, updates *p, *m and *v.
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
#endif
