// SPDX-License-Identifier: Apache-2.0
// Adam over arrays, by the element functions of recipe.h. One pass over memory reads a 16-bit or fp32 gradient, takes
// its mean, unscales and clips it, updates the states, and writes the parameters in the model's dtype.
#pragma once

#include "ref/arithmetic/dtype.h"
#include "ref/recipe/recipe.h"

#include <stddef.h>

// States that are kept in other dtypes than fp32: an update reads them widened, and rounds to nearest, ties to even,
// what it writes. The moments that move the parameter, and the parameter that model_params has, are not rounded before.
struct adam_kept {
    void *param, *exp_avg, *exp_avg_sq;  // [count]
    enum dtype param_dtype, moment_dtype;
};

// Arrays of one tensor, or of a consecutive part of it. They belong to the caller, do not overlap, and lie in one
// processor's memory (accelerator.h).
struct adam_step {
    const struct recipe *recipe;
    struct adam_scalars scalars;  // of step t, from recipe_begin_step
    const void *grad;             // [count] sums over ranks and micro-steps; only read
    enum dtype grad_dtype;
    float grad_divisor;            // g = f32(grad) / divisor, correctly rounded: ranks x micro-steps x loss scale
    float grad_coefficient;        // then g = g x coefficient: the clip; 1 changes nothing
    float *param;                  // [count] fp32 (master) parameters, updated
    float *exp_avg;                // [count] m, updated
    float *exp_avg_sq;             // [count] v, updated
    const struct adam_kept *kept;  // in place of these three, in host memory; null: they are the states
    void *model_params;            // [count] receives the updated parameters in model_dtype; null: not written
    enum dtype model_dtype;
    size_t count;
    size_t tensor_index;  // position of element 0 in its tensor, for recipes whose tail differs from their body
    size_t tensor_count;  // elements of that tensor
};

// Returns whether multiplication by the divisor's reciprocal rounds the same real number as division: true for a power
// of two.
static inline bool adam_divides_exactly(float divisor)
{
    int exponent;
    return isfinite(divisor) && fabsf(frexpf(divisor, &exponent)) == 0.5f && isfinite(1.0f / divisor);
}

// Updates the arrays on the calling thread.
void adam_update(const struct adam_step *step);

// Updates the arrays on up to `threads` OpenMP threads; the bits do not depend on their number.
void adam_update_parallel(const struct adam_step *step, int threads);

// Steps that follow each other, on up to `threads` threads. One that is like the last, but for its tensor, and goes on
// in every array where that ends, is made one with it, and on a GPU one launch, where neither has elements in the tail
// of its tensor. Begins as zero but for threads; the last steps are made by adam_queue_run.
struct adam_queue {
    int threads;
    struct adam_step step;  // of no elements: none
};
void adam_queue_add(struct adam_queue *queue, const struct adam_step *step);
void adam_queue_run(struct adam_queue *queue);
