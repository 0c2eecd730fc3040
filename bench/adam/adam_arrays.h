// SPDX-License-Identifier: Apache-2.0
// The arrays that `bench adam` updates, and the verification of every element. The initial state repeats a short period
// of values, so replaying one period element by element gives the expected state of all.
#pragma once

#include "ref/arithmetic/adam.h"

#include <stdint.h>

// Distinct elements: a prime, so that the period never lines up with blocks or vectors.
enum { ARRAYS_PERIOD = 1021 };

struct adam_arrays {
    size_t count;
    int threads;                          // that touched the pages first, and fill them
    float *param, *exp_avg, *exp_avg_sq;  // [count]
    void *grad;                           // [count], room for fp32
    void *model_params;                   // [count] of 16 bits
    void *baseline_model_params;          // [count] of 16 bits, which the baseline writes with other values
};

// Allocates the arrays, each at a 64-byte boundary. ERR_MEMORY. The caller closes them; closing a zeroed struct is
// safe.
int adam_arrays_open(size_t count, int threads, struct adam_arrays *out);
void adam_arrays_close(struct adam_arrays *arrays);

// Sets the state before the first step, with gradients in grad_dtype.
void adam_arrays_fill(struct adam_arrays *arrays, enum dtype grad_dtype);

// Verifies bit for bit that the arrays hold the initial state updated `steps` times by `step`, which covers all
// elements as one tensor; model_params too, if the step writes them. ERR_CHECK names the first difference.
int adam_arrays_check(const struct adam_arrays *arrays, const struct adam_step *step, uint64_t steps);

// Returns the norm of the initial gradients, computed in extended precision.
double adam_arrays_norm(const struct adam_arrays *arrays, enum dtype grad_dtype);

// The hyperparameters of AdamW that all comparisons have.
static const struct adam_hyper ADAM_ARRAYS_HYPER = {.lr = 1e-3,
                                                    .beta1 = 0.9,
                                                    .beta2 = 0.999,
                                                    .eps = 1e-8,
                                                    .weight_decay = 0.01,
                                                    .decoupled = true,
                                                    .bias_correction = true};
