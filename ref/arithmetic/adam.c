// SPDX-License-Identifier: Apache-2.0
// Adam over arrays: the build of adam_kernel.h for the processor that has the arrays, cut over threads.
#include "ref/arithmetic/adam.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"

// Chunks begin at multiples of this many elements, so that no two threads write to one 64-byte line of an aligned
// array, the 16-bit copy included.
enum { CHUNK_ALIGNMENT = 32 };

// Waking a thread costs more than updating fewer elements than this.
enum { THREAD_MINIMUM = 4096 };

void adam_update(const struct adam_step *step)
{
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
    // An accelerator has threads enough of its own.
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
