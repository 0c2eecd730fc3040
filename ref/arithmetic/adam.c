// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/adam.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"

#include <assert.h>
#include <string.h>

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

static bool is_in_body(const struct adam_step *step)
{
    return step->tensor_index + step->count <= recipe_tail_start(step->recipe, step->tensor_count);
}

// True if two steps are alike but for their tensors, and the second goes on where the first ends.
static bool follows(const struct adam_step *first, const struct adam_step *next)
{
    const struct adam_step end = step_slice(first, first->count, first->count);
    bool alike = first->recipe == next->recipe && first->grad_dtype == next->grad_dtype &&
                 first->grad_divisor == next->grad_divisor && first->grad_coefficient == next->grad_coefficient &&
                 first->model_dtype == next->model_dtype && !first->kept && !next->kept &&
                 memcmp(&first->scalars, &next->scalars, sizeof first->scalars) == 0;
    return alike && end.grad == next->grad && end.param == next->param && end.exp_avg == next->exp_avg &&
           end.exp_avg_sq == next->exp_avg_sq && end.model_params == next->model_params;
}

// Makes two steps one; false: they stay two.
static bool join(struct adam_step *step, const struct adam_step *next)
{
    const size_t count = step->count + next->count, lanes = step->recipe->lanes ? step->recipe->lanes : 1;
    if (!follows(step, next) || !is_in_body(step) || !is_in_body(next))
        return false;
    step->count = count;
    step->tensor_index = 0;
    step->tensor_count = (count + lanes - 1) / lanes * lanes;
    return true;
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

void adam_queue_run(struct adam_queue *queue)
{
    if (queue->step.count > 0)
        adam_update_parallel(&queue->step, queue->threads);
    queue->step.count = 0;
}

void adam_queue_add(struct adam_queue *queue, const struct adam_step *step)
{
    if (queue->step.count > 0 && join(&queue->step, step))
        return;
    adam_queue_run(queue);
    queue->step = *step;
    // Its caller may change what it points to.
    if (step->kept)
        adam_queue_run(queue);
}
