// SPDX-License-Identifier: Apache-2.0
// The loops over recipe.h's element. This text is compiled once per processor type, by the isa_*.c files; its
// functions are private to each. Inside a loop the recipe's family, fusion and decay are constants, so that the
// compiler turns the element's text into vector code without branches.
#include "adam.h"
#include "dtype_kernel.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

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

// How gradients become the recipe's g: divided or, with the same bits, multiplied by the divisor's reciprocal; then
// multiplied by the coefficient.
struct adam_scaling {
    bool nothing, divide;
    float divisor, reciprocal, coefficient;
};

// A division by a power of two and a multiplication by its reciprocal round the same real number.
static struct adam_scaling adam_scaling_of(const struct adam_step *step)
{
    float divisor = step->grad_divisor;
    int exponent;
    bool power_of_two = isfinite(divisor) && fabsf(frexpf(divisor, &exponent)) == 0.5f && isfinite(1.0f / divisor);
    return (struct adam_scaling){.nothing = divisor == 1 && step->grad_coefficient == 1,
                                 .divide = !power_of_two,
                                 .divisor = divisor,
                                 .reciprocal = 1.0f / divisor,
                                 .coefficient = step->grad_coefficient};
}

// The block's gradients as fp32, meaned, unscaled and clipped: in `buffer`, or where they are if nothing is to be done.
static const float *adam_gradients(enum dtype dtype, const void *grad, struct adam_scaling scaling, float *buffer,
                                   size_t count)
{
    const float *g = kernel_as_f32(dtype, grad, buffer, count);
    if (scaling.nothing)
        return g;
    if (scaling.divide) {
#pragma GCC ivdep
        for (size_t i = 0; i < count; i++)
            buffer[i] = g[i] / scaling.divisor * scaling.coefficient;
    } else {
#pragma GCC ivdep
        for (size_t i = 0; i < count; i++)
            buffer[i] = g[i] * scaling.reciprocal * scaling.coefficient;
    }
    return buffer;
}

// A step of at least this many elements is larger than the caches. Its 16-bit copy, which it writes and does not read,
// then goes past them: a plain store would first fetch the line, two bytes more for each parameter.
enum { ADAM_STREAM_MINIMUM = 1 << 20 };

static void adam_copy(enum dtype dtype, const float *p, void *copy, size_t count, bool stream)
{
#ifdef __AVX2__
    if (stream && count % 16 == 0 && (uintptr_t)copy % sizeof(__m256i) == 0) {
        __m256i narrow[KERNEL_BLOCK * sizeof(float) / sizeof(__m256i)];
        kernel_narrow(dtype, p, narrow, count);
        for (size_t i = 0; i < count / 16; i++)
            _mm256_stream_si256((__m256i *)copy + i, narrow[i]);
        return;
    }
#else
    (void)stream;
#endif
    kernel_narrow(dtype, p, copy, count);
}

// Elements [begin, end) of the step, all of the tensor's body or all of its tail.
static void adam_range(const struct adam_step *step, enum recipe_fusion fusion, size_t begin, size_t end)
{
    struct adam_scaling scaling = adam_scaling_of(step);
    size_t grad_bytes = dtype_bytes(step->grad_dtype), copy_bytes = dtype_bytes(step->copy_dtype);
    bool stream = end - begin >= ADAM_STREAM_MINIMUM && copy_bytes == 2;
    for (size_t start = begin; start < end; start += KERNEL_BLOCK) {
        size_t count = kernel_block(start, end);
        float buffer[KERNEL_BLOCK];
        const void *grad = (const char *)step->grad + start * grad_bytes;
        const float *g = adam_gradients(step->grad_dtype, grad, scaling, buffer, count);
        float *p = step->param + start, *m = step->exp_avg + start, *v = step->exp_avg_sq + start;
        if (step->recipe->family == RECIPE_TORCH)
            adam_family(RECIPE_TORCH, fusion, &step->scalars, g, p, m, v, count);
        else
            adam_family(RECIPE_DEEPSPEED, fusion, &step->scalars, g, p, m, v, count);
        if (step->copy)
            adam_copy(step->copy_dtype, p, (char *)step->copy + start * copy_bytes, count, stream);
    }
#ifdef __AVX2__
    if (stream)
        _mm_sfence();
#endif
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
