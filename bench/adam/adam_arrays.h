// SPDX-License-Identifier: Apache-2.0
// The arrays that `bench adam` updates, and the proof that they were updated: the state starts with a short period of
// values over and over, so the right answer for every element is that of a few, replayed one by one.
#ifndef ZG_ADAM_ARRAYS_H
#define ZG_ADAM_ARRAYS_H

#include "ref/arithmetic/adam.h"

#include <stdint.h>

// Distinct elements: a prime, so that no block or vector length repeats them in step.
enum { ARRAYS_PERIOD = 1021 };

struct adam_arrays {
    size_t count;
    int threads;  // that wrote the pages first, and fill
    float *param, *exp_avg, *exp_avg_sq;
    void *grad;                   // room for fp32
    void *model_params;           // room for 16 bits
    void *baseline_model_params;  // the same for the baseline, whose copies are other bits
};

int adam_arrays_open(size_t count, int threads, struct adam_arrays *out);  // ERR_MEMORY
void adam_arrays_close(struct adam_arrays *arrays);                        // of zeros too

// The state before the first step, with gradients in grad_dtype.
void adam_arrays_fill(struct adam_arrays *arrays, enum dtype grad_dtype);

// ERR_CHECK, naming the first difference, unless the arrays are bit for bit what `steps` times `step` make of the
// state that fill left: every element, copies included if the step has some. The step covers a whole tensor.
int adam_arrays_check(const struct adam_arrays *arrays, const struct adam_step *step, uint64_t steps);

// The norm of the gradients that fill left, in extended precision.
double adam_arrays_norm(const struct adam_arrays *arrays, enum dtype grad_dtype);

#endif
