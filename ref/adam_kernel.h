// SPDX-License-Identifier: Apache-2.0
// The loops over recipe.h's element. This text is compiled once per processor type, by the isa_*.c files; its
// functions are private to each. Inside a loop the recipe's family, fusion and decay are constants, so that the
// compiler turns the element's text into vector code without branches.
#include "adam.h"
#include "dtype_kernel.h"

#include <assert.h>
#include <math.h>

// Elements handled at a time: a block's gradients, widened, and its new parameters, to be narrowed, stay in the
// first-level cache, so memory is passed over once.
enum { ADAM_BLOCK = 1024 };

#define ADAM_INLINE static inline __attribute__((always_inline))

ADAM_INLINE void adam_loop(enum recipe_family family, enum recipe_fusion fusion, enum recipe_decay decay,
                           const struct adam_scalars *scalars, const float *restrict g, float *restrict p,
                           float *restrict m, float *restrict v, size_t count)
{
    struct adam_scalars s = *scalars;
    s.decay = decay;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        if (family == RECIPE_TORCH)
            recipe_torch_element(fusion, &s, g[i], &p[i], &m[i], &v[i]);
        else
            recipe_deepspeed_element(fusion, &s, g[i], &p[i], &m[i], &v[i]);
    }
}

ADAM_INLINE void adam_fused(enum recipe_family family, enum recipe_fusion fusion, const struct adam_scalars *scalars,
                            const float *g, float *p, float *m, float *v, size_t count)
{
    if (scalars->decay == DECAY_NONE)
        adam_loop(family, fusion, DECAY_NONE, scalars, g, p, m, v, count);
    else if (scalars->decay == DECAY_L2)
        adam_loop(family, fusion, DECAY_L2, scalars, g, p, m, v, count);
    else
        adam_loop(family, fusion, DECAY_DECOUPLED, scalars, g, p, m, v, count);
}

ADAM_INLINE void adam_family(enum recipe_family family, enum recipe_fusion fusion, const struct adam_scalars *scalars,
                             const float *g, float *p, float *m, float *v, size_t count)
{
    if (fusion == FUSE_NONE)
        adam_fused(family, FUSE_NONE, scalars, g, p, m, v, count);
    else if (fusion == FUSE_MOMENT)
        adam_fused(family, FUSE_MOMENT, scalars, g, p, m, v, count);
    else
        adam_fused(family, FUSE_GRADIENT, scalars, g, p, m, v, count);
}

// A division by a power of two and a multiplication by its reciprocal round the same real number.
static bool has_exact_reciprocal(float divisor)
{
    int exponent;
    return isfinite(divisor) && fabsf(frexpf(divisor, &exponent)) == 0.5f && isfinite(1.0f / divisor);
}

// The block's gradients as fp32, meaned, unscaled and clipped: in `buffer`, or where they are if nothing is to be done.
static const float *adam_gradients(const struct adam_step *step, size_t start, size_t count, float *buffer)
{
    const char *grad = (const char *)step->grad + start * dtype_bytes(step->grad_dtype);
    if (step->grad_dtype == DTYPE_FP32 && step->grad_divisor == 1 && step->grad_coefficient == 1)
        return (const float *)grad;
    kernel_widen(step->grad_dtype, grad, buffer, count);
    float divisor = step->grad_divisor, coefficient = step->grad_coefficient;
    if (divisor != 1 && has_exact_reciprocal(divisor)) {
        float reciprocal = 1.0f / divisor;
        for (size_t i = 0; i < count; i++)
            buffer[i] *= reciprocal;
    } else if (divisor != 1) {
        for (size_t i = 0; i < count; i++)
            buffer[i] /= divisor;
    }
    if (coefficient != 1)
        for (size_t i = 0; i < count; i++)
            buffer[i] *= coefficient;
    return buffer;
}

// Elements [begin, end) of the step, all of the tensor's body or all of its tail.
static void adam_range(const struct adam_step *step, enum recipe_fusion fusion, size_t begin, size_t end)
{
    for (size_t start = begin; start < end; start += ADAM_BLOCK) {
        size_t count = end - start < ADAM_BLOCK ? end - start : ADAM_BLOCK;
        float buffer[ADAM_BLOCK];
        const float *g = adam_gradients(step, start, count, buffer);
        float *p = step->param + start, *m = step->exp_avg + start, *v = step->exp_avg_sq + start;
        if (step->recipe->family == RECIPE_TORCH)
            adam_family(RECIPE_TORCH, fusion, &step->scalars, g, p, m, v, count);
        else
            adam_family(RECIPE_DEEPSPEED, fusion, &step->scalars, g, p, m, v, count);
        if (step->copy)
            kernel_narrow(step->copy_dtype, p, (char *)step->copy + start * dtype_bytes(step->copy_dtype), count);
    }
}

static void kernel_adam(const struct adam_step *step)
{
    size_t tail_start = recipe_tail_start(step->recipe, step->tensor_count);
    assert(!step->recipe->lanes || step->tensor_index + step->count <= step->tensor_count);
    size_t body = step->count;
    if (step->recipe->lanes && step->tensor_index + step->count > tail_start)
        body = step->tensor_index < tail_start ? tail_start - step->tensor_index : 0;
    adam_range(step, step->recipe->body, 0, body);
    adam_range(step, step->recipe->tail, body, step->count);
}
