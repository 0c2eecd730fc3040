// SPDX-License-Identifier: Apache-2.0
// Updates of whole tensors, in place of Adam's element by element: the optimizer knows that there are such parameters
// (model_param.whole), which one rank owns each, and no more.
#pragma once

#include "ref/config/config.h"
#include "ref/model/model.h"

#include <stddef.h>
#include <stdint.h>

// One update of one tensor, all arrays [param->count] and in one processor's memory.
struct whole_step {
    const struct config *config;
    const struct model_param *param;
    uint64_t step, t;  // the run's step, and the update that it makes; both count from 1
    const void *grad;  // sums over ranks and micro-steps
    enum dtype grad_dtype;
    float grad_divisor, grad_coefficient;  // as in adam.h
    float *master, *momentum;              // updated
    void *model_params;                    // receives the parameters in model_dtype; null: not written
    enum dtype model_dtype;
    float *scratch;
};

struct whole_update {
    size_t (*scratch_floats)(const struct model_param *param);
    void (*run)(const struct whole_step *step);
};
