// SPDX-License-Identifier: Apache-2.0
// The types of a recipe (recipe.h): family, fusion, row of the table, and the scalars of a step.
#pragma once

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

// The forms of Adam's update. PyTorch interpolates m, divides by the bias corrections, and adds the update; on a GPU
// each of its forms associates the second moment and the update differently, and the fused form computes in double or,
// in later versions, interpolates both moments. DeepSpeed on a CPU weights both terms of m, multiplies by a reciprocal,
// and folds the learning rate into one last multiply-add. Apex corrects m and v themselves and applies decay and
// learning rate last.
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

// Names the product in moment x beta + gradient term that enters the sum unrounded. With FUSE_NONE, no other
// multiply-add of the recipe is fused either. PyTorch's forms on a GPU have FUSE_GRADIENT only.
enum recipe_fusion { FUSE_NONE, FUSE_MOMENT, FUSE_GRADIENT };

enum recipe_decay { DECAY_NONE, DECAY_L2, DECAY_DECOUPLED };

// A row of the table of known implementations.
struct recipe {
    const char *name;
    const char *source;   // the implementation that it reproduces
    const char *version;  // of that implementation
    const char *note;     // how far the equality has been checked, and known exceptions
    enum recipe_family family;
    enum recipe_fusion body;
    // The implementation processes `lanes` elements of a tensor at a time and the last tensor_count % lanes one by
    // one; its compiler fuses another product there: `tail`. 0: every element uses `body`.
    enum recipe_fusion tail;
    unsigned lanes;
};

// State that a recipe carries from step to step, per optimizer group: DeepSpeed's fp32 powers of beta, with the betas
// and the step that they belong to. Initially zero.
struct recipe_state {
    float beta1_power, beta2_power;
    float beta1, beta2;
    uint64_t step;
};

// Factors of PyTorch's fused form on a GPU, which multiplies by doubles.
struct adam_wide {
    double m_keep, m_take, v_keep, v_take, eps;
    double decay_l2;         // weight decay
    double decay_decoupled;  // -lr x weight decay
};

// The scalars of one step. The comments give the meaning for PyTorch, then for DeepSpeed, both on a CPU; the sources of
// the other families give theirs.
struct adam_scalars {
    enum recipe_decay decay;
    bool from_gradient;     // |1 - beta1| >= 0.5: m is interpolated starting from the gradient; not used
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

// a x b + c
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
