// SPDX-License-Identifier: Apache-2.0
// The loops over the element functions of recipe.h. Each isa_*.c file compiles this text for its instruction set; the
// functions are private to it. Family, fusion, decay and where m starts are compile-time constants inside a loop, so
// that the compiler makes vector code without branches.
#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/dtype_kernel.h"
#include "ref/arithmetic/ivdep.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define ADAM_INLINE static inline __attribute__((always_inline))

// The gradients of a block, in fp32 or bf16. The recipe's g is f32(value) x reciprocal x coefficient.
struct adam_gradients {
    enum dtype dtype;
    const void *values;
    float reciprocal, coefficient;
};

// Elements between two prefetches, two cache lines of fp32, and how far ahead of the loop these are: some processors do
// not follow four streams on their own. A shorter loop would be unrolled, and then not be vector code.
enum { ADAM_LINES = 32, ADAM_AHEAD = 256, CACHE_LINE_BYTES = 64 };

// Fetches the lines of ADAM_LINES elements that are ADAM_AHEAD after x. What is behind an array's end does no harm.
ADAM_INLINE void adam_prefetch(const void *x, size_t element_bytes)
{
    uintptr_t at = (uintptr_t)x + ADAM_AHEAD * element_bytes;
    for (size_t line = 0; line < ADAM_LINES * element_bytes / CACHE_LINE_BYTES; line++)
        __builtin_prefetch((const void *)(at + line * CACHE_LINE_BYTES));
}

// count is a multiple of ADAM_LINES, as it is in all functions that end here.
ADAM_INLINE void adam_loop(enum recipe_family family, enum recipe_fusion fusion, enum recipe_decay decay,
                           bool from_gradient, enum dtype dtype, const struct adam_scalars *scalars,
                           const struct adam_gradients *gradients, float *restrict p, float *restrict m,
                           float *restrict v, size_t count)
{
    struct adam_scalars s = *scalars;
    s.decay = decay;
    s.from_gradient = from_gradient;
    float reciprocal = gradients->reciprocal, coefficient = gradients->coefficient;
    const float *restrict wide = gradients->values;
    const struct bf16 *restrict brain = gradients->values;
    for (size_t begin = 0; begin < count; begin += ADAM_LINES) {
        if (dtype == DTYPE_FP32)
            adam_prefetch(&wide[begin], sizeof *wide);
        else
            adam_prefetch(&brain[begin], sizeof *brain);
        adam_prefetch(&p[begin], sizeof *p);
        adam_prefetch(&m[begin], sizeof *m);
        adam_prefetch(&v[begin], sizeof *v);
        IVDEP
        for (size_t i = begin; i - begin < ADAM_LINES; i++) {
            float g = (dtype == DTYPE_FP32 ? wide[i] : bf16_to_f32(brain[i])) * reciprocal * coefficient;
            recipe_family_element(family, fusion, &s, g, &p[i], &m[i], &v[i]);
        }
    }
}

ADAM_INLINE void adam_typed(enum recipe_family family, enum recipe_fusion fusion, enum recipe_decay decay,
                            bool from_gradient, const struct adam_scalars *scalars, const struct adam_gradients *g,
                            float *p, float *m, float *v, size_t count)
{
    if (g->dtype == DTYPE_FP32)
        adam_loop(family, fusion, decay, from_gradient, DTYPE_FP32, scalars, g, p, m, v, count);
    else
        adam_loop(family, fusion, decay, from_gradient, DTYPE_BF16, scalars, g, p, m, v, count);
}

ADAM_INLINE void adam_decayed(enum recipe_family family, enum recipe_fusion fusion, enum recipe_decay decay,
                              const struct adam_scalars *scalars, const struct adam_gradients *g, float *p, float *m,
                              float *v, size_t count)
{
    if (scalars->from_gradient)
        adam_typed(family, fusion, decay, true, scalars, g, p, m, v, count);
    else
        adam_typed(family, fusion, decay, false, scalars, g, p, m, v, count);
}

ADAM_INLINE void adam_fused(enum recipe_family family, enum recipe_fusion fusion, const struct adam_scalars *scalars,
                            const struct adam_gradients *g, float *p, float *m, float *v, size_t count)
{
    if (scalars->decay == DECAY_NONE)
        adam_decayed(family, fusion, DECAY_NONE, scalars, g, p, m, v, count);
    else if (scalars->decay == DECAY_L2)
        adam_decayed(family, fusion, DECAY_L2, scalars, g, p, m, v, count);
    else
        adam_decayed(family, fusion, DECAY_DECOUPLED, scalars, g, p, m, v, count);
}

ADAM_INLINE void adam_family(enum recipe_family family, enum recipe_fusion fusion, const struct adam_scalars *scalars,
                             const struct adam_gradients *g, float *p, float *m, float *v, size_t count)
{
    if (fusion == FUSE_NONE)
        adam_fused(family, FUSE_NONE, scalars, g, p, m, v, count);
    else if (fusion == FUSE_MOMENT)
        adam_fused(family, FUSE_MOMENT, scalars, g, p, m, v, count);
    else
        adam_fused(family, FUSE_GRADIENT, scalars, g, p, m, v, count);
}

static void adam_block(enum recipe_family family, enum recipe_fusion fusion, const struct adam_scalars *scalars,
                       const struct adam_gradients *g, float *p, float *m, float *v, size_t count)
{
    switch (family) {
    case RECIPE_TORCH:
        adam_family(RECIPE_TORCH, fusion, scalars, g, p, m, v, count);
        break;
    case RECIPE_DEEPSPEED:
        adam_family(RECIPE_DEEPSPEED, fusion, scalars, g, p, m, v, count);
        break;
    case RECIPE_TORCH_CUDA_FOREACH:
    case RECIPE_TORCH_CAPTURABLE_SINGLE:
        adam_fused(RECIPE_TORCH_CUDA_FOREACH, FUSE_GRADIENT, scalars, g, p, m, v, count);
        break;
    case RECIPE_TORCH_CUDA_SINGLE:
        adam_fused(RECIPE_TORCH_CUDA_SINGLE, FUSE_GRADIENT, scalars, g, p, m, v, count);
        break;
    case RECIPE_TORCH_CUDA_FUSED:
        adam_fused(RECIPE_TORCH_CUDA_FUSED, FUSE_GRADIENT, scalars, g, p, m, v, count);
        break;
    case RECIPE_TORCH_CAPTURABLE_FOREACH:
        adam_fused(RECIPE_TORCH_CAPTURABLE_FOREACH, FUSE_GRADIENT, scalars, g, p, m, v, count);
        break;
    case RECIPE_TORCH_CUDA_FUSED_FP32:
        adam_fused(RECIPE_TORCH_CUDA_FUSED_FP32, FUSE_GRADIENT, scalars, g, p, m, v, count);
        break;
    case RECIPE_APEX:
        adam_family(RECIPE_APEX, fusion, scalars, g, p, m, v, count);
        break;
    case RECIPE_FAMILY_COUNT:
        break;
    }
}

// The same for any count: what is left of ADAM_LINES elements is updated in copies.
static void adam_elements(enum recipe_family family, enum recipe_fusion fusion, const struct adam_scalars *scalars,
                          const struct adam_gradients *g, float *p, float *m, float *v, size_t count)
{
    size_t whole = count / ADAM_LINES * ADAM_LINES, rest = count - whole;
    if (whole > 0)
        adam_block(family, fusion, scalars, g, p, m, v, whole);
    if (rest == 0)
        return;
    union {
        float wide[ADAM_LINES];
        struct bf16 brain[ADAM_LINES];
    } gradients = {{0}};
    float *const states[] = {p + whole, m + whole, v + whole}, copies[3][ADAM_LINES] = {0};
    memcpy(&gradients, (const char *)g->values + whole * dtype_bytes(g->dtype), rest * dtype_bytes(g->dtype));
    for (int i = 0; i < 3; i++)
        memcpy(copies[i], states[i], rest * sizeof(float));
    struct adam_gradients last = *g;
    last.values = &gradients;
    adam_block(family, fusion, scalars, &last, copies[0], copies[1], copies[2], ADAM_LINES);
    for (int i = 0; i < 3; i++)
        memcpy(states[i], copies[i], rest * sizeof(float));
}

// Returns the gradients of a block of the step. Converts them in `buffer` where adam_loop cannot read them directly:
// for fp16, and where the mean needs a true division.
static struct adam_gradients adam_block_gradients(const struct adam_step *step, bool divide, size_t start,
                                                  float *buffer, size_t count)
{
    const void *values = (const char *)step->grad + start * dtype_bytes(step->grad_dtype);
    if (!divide && step->grad_dtype != DTYPE_FP16)
        return (struct adam_gradients){step->grad_dtype, values, 1.0f / step->grad_divisor, step->grad_coefficient};
    const float *g = kernel_as_f32(step->grad_dtype, values, buffer, count);
    if (!divide)
        return (struct adam_gradients){DTYPE_FP32, g, 1.0f / step->grad_divisor, step->grad_coefficient};
    float divisor = step->grad_divisor, coefficient = step->grad_coefficient;
    IVDEP
    for (size_t i = 0; i < count; i++)
        buffer[i] = g[i] / divisor * coefficient;
    return (struct adam_gradients){DTYPE_FP32, buffer, 1.0f, 1.0f};
}

// A step of at least this many elements is larger than the caches. Streaming stores then write the 16-bit parameters,
// which the step does not read: a plain store would first fetch the line, two more bytes for each parameter.
enum { ADAM_STREAM_MINIMUM = 1 << 20 };

static void adam_narrow(enum dtype dtype, const float *p, void *model_params, size_t count, bool stream)
{
#ifdef __AVX2__
    if (stream && count % 16 == 0 && (uintptr_t)model_params % sizeof(__m256i) == 0) {
        __m256i narrow[KERNEL_BLOCK * sizeof(float) / sizeof(__m256i)];
        kernel_narrow(dtype, p, narrow, count);
        for (size_t i = 0; i < count / 16; i++)
            _mm256_stream_si256((__m256i *)model_params + i, narrow[i]);
        return;
    }
#else
    (void)stream;
#endif
    kernel_narrow(dtype, p, model_params, count);
}

// Updates elements [begin, end) of the step, all in the tensor's body or all in its tail.
static void adam_range(const struct adam_step *step, enum recipe_fusion fusion, size_t begin, size_t end)
{
    bool divide = !adam_divides_exactly(step->grad_divisor);
    size_t model_bytes = dtype_bytes(step->model_dtype);
    bool stream = end - begin >= ADAM_STREAM_MINIMUM && model_bytes == 2;
    for (size_t start = begin; start < end; start += KERNEL_BLOCK) {
        size_t count = kernel_block(start, end);
        float buffer[KERNEL_BLOCK];
        const struct adam_gradients g = adam_block_gradients(step, divide, start, buffer, count);
        float *p = step->param + start, *m = step->exp_avg + start, *v = step->exp_avg_sq + start;
        adam_elements(step->recipe->family, fusion, &step->scalars, &g, p, m, v, count);
        if (step->model_params)
            adam_narrow(step->model_dtype, p, (char *)step->model_params + start * model_bytes, count, stream);
    }
#ifdef __AVX2__
    if (stream)
        _mm_sfence();
#endif
}

static void kernel_adam(const struct adam_step *step)
{
    size_t tail_start = recipe_tail_start(step->recipe, step->tensor_count);
    size_t body = step->count;
    if (step->recipe->lanes && step->tensor_index + step->count > tail_start)
        body = step->tensor_index < tail_start ? tail_start - step->tensor_index : 0;
    adam_range(step, step->recipe->body, 0, body);
    adam_range(step, step->recipe->tail, body, step->count);
}
