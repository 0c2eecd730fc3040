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

void adam_update(const struct adam_step *step)
{
    assert(step->recipe && step->recipe->family < RECIPE_FAMILY_COUNT && step->grad_dtype < DTYPE_BYTE);
    assert(step->count == 0 || (step->grad && step->param && step->exp_avg && step->exp_avg_sq));
    assert(!step->model_params || step->model_dtype < DTYPE_BYTE);
    assert(!step->recipe->lanes || step->tensor_index + step->count <= step->tensor_count);
    isa_kernels_at(step->param)->adam(step);
}

static struct adam_step step_slice(const struct adam_step *step, size_t begin, size_t end)
{
    struct adam_step slice = *step;
    slice.grad = (const char *)step->grad + begin * dtype_bytes(step->grad_dtype);
    slice.param += begin;
    slice.exp_avg += begin;
    slice.exp_avg_sq += begin;
    if (step->model_params)
        slice.model_params = (char *)step->model_params + begin * dtype_bytes(step->model_dtype);
    slice.tensor_index += begin;
    slice.count = end - begin;
    return slice;
}

void adam_update_parallel(const struct adam_step *step, int threads)
{
    // An accelerator runs one update on threads of its own.
    size_t useful = accelerator_of(step->param) ? 0 : step->count / THREAD_MINIMUM;
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
        adam_update(&slice);
    }
}
