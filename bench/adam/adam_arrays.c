// SPDX-License-Identifier: Apache-2.0
// Allocates, fills and verifies the arrays of `bench adam`.
#include "bench/adam/adam_arrays.h"

#include "bench/harness/bench.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

// Allocations begin at huge pages. If all arrays did, the same element of each would map to the same cache set, so
// array i begins i times this far into its allocation.
enum { SKEW_BYTES = 17 * 64, ARRAY_COUNT = 6 };

static void *array_open(int index, size_t bytes, int threads)
{
    char *memory = bench_alloc(bytes + ARRAY_COUNT * SKEW_BYTES, threads);
    return memory ? memory + index * SKEW_BYTES : NULL;
}

static void array_close(int index, void *array, size_t bytes)
{
    if (array)
        bench_free((char *)array - index * SKEW_BYTES, bytes + ARRAY_COUNT * SKEW_BYTES);
}

int adam_arrays_open(size_t count, int threads, struct adam_arrays *out)
{
    assert(count > 0 && threads > 0);
    *out = (struct adam_arrays){
        .count = count,
        .threads = threads,
        .param = array_open(0, count * sizeof(float), threads),
        .exp_avg = array_open(1, count * sizeof(float), threads),
        .exp_avg_sq = array_open(2, count * sizeof(float), threads),
        .grad = array_open(3, count * sizeof(float), threads),
        .model_params = array_open(4, count * sizeof(struct bf16), threads),
        .baseline_model_params = array_open(5, count * sizeof(struct bf16), threads),
    };
    if (out->param && out->exp_avg && out->exp_avg_sq && out->grad && out->model_params && out->baseline_model_params)
        return ERR_NONE;
    adam_arrays_close(out);
    return err_set(ERR_MEMORY, "no memory for %zu parameters of 20 bytes; choose fewer with --sizes", count);
}

void adam_arrays_close(struct adam_arrays *arrays)
{
    array_close(0, arrays->param, arrays->count * sizeof(float));
    array_close(1, arrays->exp_avg, arrays->count * sizeof(float));
    array_close(2, arrays->exp_avg_sq, arrays->count * sizeof(float));
    array_close(3, arrays->grad, arrays->count * sizeof(float));
    array_close(4, arrays->model_params, arrays->count * sizeof(struct bf16));
    array_close(5, arrays->baseline_model_params, arrays->count * sizeof(struct bf16));
    *arrays = (struct adam_arrays){0};
}

// One period of the initial state, with magnitudes as in training.
struct period {
    float param[ARRAYS_PERIOD], exp_avg[ARRAYS_PERIOD], exp_avg_sq[ARRAYS_PERIOD];
    float grad[ARRAYS_PERIOD];                // as fp32, exact
    unsigned char stored[4 * ARRAYS_PERIOD];  // the same values in the gradient's dtype
};

static void period_make(struct period *period, enum dtype grad_dtype)
{
    for (size_t i = 0; i < ARRAYS_PERIOD; i++) {
        period->param[i] = 0.02f * random_normal(random_at(1, i));
        period->exp_avg[i] = 1e-3f * random_normal(random_at(2, i));
        period->exp_avg_sq[i] = 1e-6f * (1 + fabsf(random_normal(random_at(3, i))));
        period->grad[i] = 1e-3f * random_normal(random_at(4, i));
    }
    dtype_narrow(grad_dtype, period->grad, period->stored, ARRAYS_PERIOD);
    dtype_widen(grad_dtype, period->stored, period->grad, ARRAYS_PERIOD);
}

// Returns the number of elements from `start` to the end of its period.
static size_t run_length(size_t count, size_t start)
{
    return count - start < ARRAYS_PERIOD ? count - start : ARRAYS_PERIOD;
}

void adam_arrays_fill(struct adam_arrays *arrays, enum dtype grad_dtype)
{
    struct period period;
    period_make(&period, grad_dtype);
    size_t bytes = dtype_bytes(grad_dtype);
#pragma omp parallel for num_threads(arrays->threads) schedule(static)
    for (size_t start = 0; start < arrays->count; start += ARRAYS_PERIOD) {
        size_t length = run_length(arrays->count, start);
        memcpy(arrays->param + start, period.param, length * sizeof(float));
        memcpy(arrays->exp_avg + start, period.exp_avg, length * sizeof(float));
        memcpy(arrays->exp_avg_sq + start, period.exp_avg_sq, length * sizeof(float));
        memcpy((char *)arrays->grad + start * bytes, period.stored, length * bytes);
        memset((char *)arrays->model_params + start * sizeof(struct bf16), 0xff, length * sizeof(struct bf16));
    }
}

// Applies the steps to one element by the recipe's scalar definition.
static void replay(const struct adam_step *step, uint64_t steps, bool tail, float grad, float *p, float *m, float *v)
{
    float g = grad / step->grad_divisor * step->grad_coefficient;
    for (uint64_t i = 0; i < steps; i++)
        recipe_element(step->recipe, &step->scalars, tail, g, p, m, v);
}

// Compares `count` elements of an array with the expected ones; `start` is the index of the first, for the message.
static int compare(const char *name, const void *actual, const void *expected, size_t count, size_t element_bytes,
                   size_t start)
{
    if (memcmp(actual, expected, count * element_bytes) == 0)
        return ERR_NONE;
    for (size_t i = 0; i < count; i++) {
        uint32_t got = 0, want = 0;
        memcpy(&got, (const char *)actual + i * element_bytes, element_bytes);
        memcpy(&want, (const char *)expected + i * element_bytes, element_bytes);
        if (got != want)
            return err_set(ERR_CHECK, "%s[%zu] is 0x%0*" PRIx32 ", expected 0x%0*" PRIx32, name, start + i,
                           (int)(2 * element_bytes), got, (int)(2 * element_bytes), want);
    }
    return err_set(ERR_INTERNAL, "%s: memcmp and the elements disagree", name);
}

static int compare_run(const struct adam_arrays *arrays, const struct adam_step *step, const struct period *expected,
                       const uint16_t *copies, size_t start, size_t first, size_t length)
{
    TRY(compare("param", arrays->param + start, expected->param + first, length, 4, start));
    TRY(compare("exp_avg", arrays->exp_avg + start, expected->exp_avg + first, length, 4, start));
    TRY(compare("exp_avg_sq", arrays->exp_avg_sq + start, expected->exp_avg_sq + first, length, 4, start));
    if (step->model_params)
        TRY(compare("copy", (const uint16_t *)arrays->model_params + start, copies + first, length, 2, start));
    return ERR_NONE;
}

static bool is_right_run(const struct adam_arrays *arrays, const struct adam_step *step, const struct period *expected,
                         const uint16_t *copies, size_t start, size_t length)
{
    return memcmp(arrays->param + start, expected->param, 4 * length) == 0 &&
           memcmp(arrays->exp_avg + start, expected->exp_avg, 4 * length) == 0 &&
           memcmp(arrays->exp_avg_sq + start, expected->exp_avg_sq, 4 * length) == 0 &&
           (!step->model_params ||
            memcmp((const uint16_t *)arrays->model_params + start, copies, sizeof *copies * length) == 0);
}

// Returns whether every element before the tail is right, by all threads of this process.
static bool is_right_body(const struct adam_arrays *arrays, const struct adam_step *step, const struct period *expected,
                          const uint16_t *copies, size_t count)
{
    size_t wrong = 0;
#pragma omp parallel for num_threads(bench_thread_count()) schedule(static) reduction(+ : wrong)
    for (size_t start = 0; start < count; start += ARRAYS_PERIOD)
        wrong += !is_right_run(arrays, step, expected, copies, start, run_length(count, start));
    return wrong == 0;
}

int adam_arrays_check(const struct adam_arrays *arrays, const struct adam_step *step, uint64_t steps)
{
    assert(step->count == arrays->count && step->tensor_count == arrays->count && step->tensor_index == 0);
    struct period body, tail;
    period_make(&body, step->grad_dtype);
    tail = body;
    uint16_t body_copies[ARRAYS_PERIOD], tail_copies[ARRAYS_PERIOD];
    size_t tail_start = recipe_tail_start(step->recipe, arrays->count);
    for (size_t i = 0; i < run_length(tail_start, 0); i++)
        replay(step, steps, false, body.grad[i], &body.param[i], &body.exp_avg[i], &body.exp_avg_sq[i]);
    for (size_t i = tail_start; i < arrays->count; i++) {
        size_t k = i % ARRAYS_PERIOD;
        replay(step, steps, true, tail.grad[k], &tail.param[k], &tail.exp_avg[k], &tail.exp_avg_sq[k]);
    }
    if (step->model_params) {
        dtype_narrow(step->model_dtype, body.param, body_copies, ARRAYS_PERIOD);
        dtype_narrow(step->model_dtype, tail.param, tail_copies, ARRAYS_PERIOD);
    }
    bool right = is_right_body(arrays, step, &body, body_copies, tail_start);
    for (size_t start = 0; start < tail_start && !right; start += ARRAYS_PERIOD)
        TRY(compare_run(arrays, step, &body, body_copies, start, 0, run_length(tail_start, start)));
    for (size_t i = tail_start; i < arrays->count; i++)
        TRY(compare_run(arrays, step, &tail, tail_copies, i, i % ARRAYS_PERIOD, 1));
    return ERR_NONE;
}

double adam_arrays_norm(const struct adam_arrays *arrays, enum dtype grad_dtype)
{
    struct period period;
    period_make(&period, grad_dtype);
    size_t whole = arrays->count / ARRAYS_PERIOD, rest = arrays->count % ARRAYS_PERIOD;
    long double sum = 0;
    for (size_t i = 0; i < ARRAYS_PERIOD; i++) {
        long double square = (long double)period.grad[i] * period.grad[i];
        sum += square * (long double)(whole + (i < rest));
    }
    return (double)sqrtl(sum);
}
