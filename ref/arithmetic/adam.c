// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/adam.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"

#include <assert.h>

// Chunks begin at multiples of this many elements, so that no two threads write to the same 64-byte line of an aligned
// array, fp32 or 16-bit.
enum { CHUNK_ALIGNMENT = 32 };

// Waking a thread costs more than updating fewer elements than this.
enum { THREAD_MINIMUM = 4096 };

// Elements of kept states that are in fp32 together: all in the first level of a cache.
enum { KEPT_BLOCK = 1024 };

static struct adam_step step_slice(const struct adam_step *step, size_t begin, size_t end)
{
    struct adam_step slice = *step;
    slice.grad = (const char *)step->grad + begin * dtype_bytes(step->grad_dtype);
    if (!step->kept) {
        slice.param += begin;
        slice.exp_avg += begin;
        slice.exp_avg_sq += begin;
    }
    if (step->model_params)
        slice.model_params = (char *)step->model_params + begin * dtype_bytes(step->model_dtype);
    slice.tensor_index += begin;
    slice.count = end - begin;
    return slice;
}

static struct adam_kept kept_slice(const struct adam_kept *kept, size_t begin)
{
    size_t param_begin = begin * dtype_bytes(kept->param_dtype), moment_begin = begin * dtype_bytes(kept->moment_dtype);
    return (struct adam_kept){.param = (char *)kept->param + param_begin,
                              .exp_avg = (char *)kept->exp_avg + moment_begin,
                              .exp_avg_sq = (char *)kept->exp_avg_sq + moment_begin,
                              .param_dtype = kept->param_dtype,
                              .moment_dtype = kept->moment_dtype};
}

// Elements of kept states from `begin` on, by way of fp32.
static void update_kept(const struct adam_step *step, size_t begin, size_t end)
{
    struct adam_kept kept = kept_slice(step->kept, begin);
    float param[KEPT_BLOCK], exp_avg[KEPT_BLOCK], exp_avg_sq[KEPT_BLOCK];
    void *const states[] = {kept.param, kept.exp_avg, kept.exp_avg_sq};
    const enum dtype dtypes[] = {kept.param_dtype, kept.moment_dtype, kept.moment_dtype};
    float *const wide[] = {param, exp_avg, exp_avg_sq};
    struct adam_step block = step_slice(step, begin, end);
    block.kept = NULL;
    block.param = param;
    block.exp_avg = exp_avg;
    block.exp_avg_sq = exp_avg_sq;
    for (int i = 0; i < 3; i++)
        dtype_widen(dtypes[i], states[i], wide[i], block.count);
    adam_update(&block);
    for (int i = 0; i < 3; i++)
        dtype_narrow(dtypes[i], wide[i], states[i], block.count);
}

void adam_update(const struct adam_step *step)
{
    assert(step->recipe && step->recipe->family < RECIPE_FAMILY_COUNT && step->grad_dtype < DTYPE_BYTE);
    assert(step->count == 0 || (step->grad && (step->kept || (step->param && step->exp_avg && step->exp_avg_sq))));
    assert(!step->model_params || step->model_dtype < DTYPE_BYTE);
    assert(!step->recipe->lanes || step->tensor_index + step->count <= step->tensor_count);
    if (!step->kept)
        isa_kernels_at(step->param)->adam(step);
    for (size_t begin = 0; step->kept && begin < step->count; begin += KEPT_BLOCK)
        update_kept(step, begin, step->count - begin < KEPT_BLOCK ? step->count : begin + KEPT_BLOCK);
}

void adam_update_parallel(const struct adam_step *step, int threads)
{
    // An accelerator runs one update on threads of its own.
    size_t useful = !step->kept && accelerator_of(step->param) ? 0 : step->count / THREAD_MINIMUM;
    if (threads > 0 && (size_t)threads > useful)
        threads = (int)useful;
    if (threads <= 1) {
        adam_update(step);
        return;
    }
    size_t chunk = step->count / (size_t)threads / CHUNK_ALIGNMENT * CHUNK_ALIGNMENT;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int thread = 0; thread < threads; thread++) {
        size_t begin = (size_t)thread * chunk;
        size_t end = thread == threads - 1 ? step->count : begin + chunk;
        struct adam_step slice = step_slice(step, begin, end);
        struct adam_kept kept = step->kept ? kept_slice(step->kept, begin) : (struct adam_kept){0};
        slice.kept = step->kept ? &kept : NULL;
        adam_update(&slice);
    }
}
