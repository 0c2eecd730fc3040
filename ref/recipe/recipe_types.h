// SPDX-License-Identifier: Apache-2.0
// The words of a recipe (recipe.h): its families, which products it fuses, its row in the table, and the scalars that a
// step's elements need.
#ifndef ZG_RECIPE_TYPES_H
#define ZG_RECIPE_TYPES_H

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
    bool decoupled;  // AdamW; false: Adam with L2
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
    const char *source;   // the implementation that it reproduces
    const char *version;  // of that implementation
    const char *note;     // how far the equality has been checked, and what to know
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
    double decay_l2;         // weight decay
    double decay_decoupled;  // -lr x weight decay
};

// Everything a step's elements need. The comments give PyTorch's meaning, then DeepSpeed's on a CPU; recipe.c says what
// the other families put there.
struct adam_scalars {
    enum recipe_decay decay;
    bool from_gradient;     // |1 - beta1| >= 0.5: m is interpolated from the gradient's end; not used
    float m_keep;           // not used; beta1
    float m_take;           // 1 - beta1, less 1 if from_gradient; 1 - beta1
    float v_keep;           // beta2; the same
    float v_take;           // 1 - beta2; the same
    float bias1;            // not used
    float bias2;            // sqrt(1 - beta2^t), a divisor; 1 / sqrt(1 - beta2^t), a factor
    float eps;              // the same
    float step_size;        // -lr / (1 - beta1^t); the same
    float decay_l2;         // weight decay; the same
    float decay_decoupled;  // 1 - lr x weight decay, a factor; -lr x weight decay
    struct adam_wide wide;  // RECIPE_TORCH_CUDA_FUSED only
};

// Two of the elements' operations, in each fusion.
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

#ifdef __cplusplus
}
#endif

#endif
