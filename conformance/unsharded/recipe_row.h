// SPDX-License-Identifier: Apache-2.0
// The rows of the suite's own table of recipes: each is a function that makes a step's scalars and one that updates an
// element, written out operation by operation. They share no arithmetic with ref/: the two check each other.
#pragma once

#include "conformance/unsharded/rule.h"

#include <math.h>

// The inputs of a step for one group. `resumed_t`: the running products of beta begin after this t, where a checkpoint
// was loaded; 0: at the beginning.
struct recipe_step {
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled, bias_correction;
    uint64_t t, resumed_t;
};

// The scalars of a step. Which of them a recipe uses, and in which format it rounds them, is its own affair.
struct recipe_scalars {
    bool l2, decoupled;  // the decay that is done; both false: none
    bool scales_m;       // m is beta1 x m + (1 - beta1) x g, where the recipe's other form interpolates
    float beta1, beta2, lr, eps, weight_decay;
    float take1, take2;  // 1 - beta
    float bias1, bias2;  // of m and v, as the recipe's comment says
    float step_size, eps_by_step;
    float shrink;             // of the parameter, for decoupled decay
    struct recipe_step wide;  // the same in double
    enum dtype storage;       // of moments and parameter, in recipes that round each operation
};

// Of the two products in a x b + c x d, which one enters the sum unrounded. NONE: no multiply-add is fused.
enum recipe_fuse { RECIPE_FUSE_NONE, RECIPE_FUSE_OLD, RECIPE_FUSE_NEW };

typedef void recipe_begin_function(const struct recipe_step *step, struct recipe_scalars *out);
typedef void recipe_element_function(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m,
                                     float *v);

struct adam_recipe {
    const char *name, *source;
    const char *checked;  // how it is known
    bool decoupled_only;
    enum recipe_fuse body, tail;  // different: the choice is by element
    recipe_begin_function *begin;
    recipe_element_function *element;
    bool (*is_here)(void);  // null: everywhere; whether this processor can compute it
    // null: moments are kept in fp32. Else rounds a tensor's moment, after its update, to what is kept of it.
    void (*keep)(float *moment, size_t count, bool is_signed);
};

// a x b + c
static inline float recipe_fma(enum recipe_fuse fuse, float a, float b, float c)
{
    return fuse == RECIPE_FUSE_NONE ? a * b + c : fmaf(a, b, c);
}

// old x keep + new x take
static inline float recipe_blend(enum recipe_fuse fuse, float old, float keep, float new, float take)
{
    if (fuse == RECIPE_FUSE_OLD)
        return fmaf(old, keep, new *take);
    if (fuse == RECIPE_FUSE_NEW)
        return fmaf(new, take, old * keep);
    return old * keep + new *take;
}

recipe_begin_function torch_begin, torch_scaled_begin, bitsandbytes_begin, torchao_begin, torch_capturable_single_begin,
    torch_capturable_foreach_begin, torch_fused_cuda_begin, torch_fused_cuda_fp32_begin, deepspeed_cpu_begin,
    apex_begin, llmc_begin, paddle_begin, optax_begin;

recipe_element_function torch_cpu_element, torch_16bit_element, torch_mkl_element, torch_mkl_sse_element,
    bitsandbytes_element, bitsandbytes_mkl_element, bitsandbytes_mkl_sse_element, torchao_element,
    torch_cuda_single_element, torch_cuda_foreach_element, torch_capturable_single_element,
    torch_capturable_foreach_element, torch_fused_cuda_element, torch_fused_cuda_fp32_element, deepspeed_cpu_element,
    apex_element, llmc_cuda_element, llmc_cpu_element, paddle_element, optax_element;

// Moments in blocks of 8-bit codes (moment_blocks.c).
void bitsandbytes_keep(float *moment, size_t count, bool is_signed);
void torchao_keep(float *moment, size_t count, bool is_signed);

// The square root of MKL's vector mathematics where it uses AVX-512; only if this processor has rsqrt14.
float mkl_sqrt(float x);
bool mkl_sqrt_is_here(void);

// The same where it uses SSE, as on processors of other makers than Intel; only on x86-64.
float mkl_sse_sqrt(float x);
bool mkl_sse_sqrt_is_here(void);
