// SPDX-License-Identifier: Apache-2.0
// Updates of whole tensors, in place of Adam's element by element: the optimizer knows that there are such parameters
// (model_param.whole), which one rank owns each, and no more. An update has a direction, which is made element by
// element, a function of all of it, and a move of the elements by the result. So a rank that has a slice of the tensor
// (ref/model/part.h) needs the others' directions, and moves its own.
#pragma once

#include "ref/config/config.h"
#include "ref/model/model.h"

#include <stddef.h>
#include <stdint.h>

// One update of one tensor, of which this rank has `count` elements: all arrays have as many, and are in one
// processor's memory.
struct whole_step {
    const struct config *config;
    const struct model_param *param;  // the whole one
    size_t count;
    uint64_t step, t;  // the run's step, and the update that it makes; both count from 1
    const void *grad;  // sums over ranks and micro-steps
    enum dtype grad_dtype;
    float grad_divisor, grad_coefficient;  // as in adam.h
    float *master, *momentum;              // updated
    void *model_params;                    // receives the parameters in model_dtype; null: not written
    enum dtype model_dtype;
};

struct whole_update {
    // At least 2 x the whole parameter's elements.
    size_t (*scratch_floats)(const struct model_param *param);
    // Updates the momentum; writes the direction.
    void (*direct)(const struct whole_step *step, float *direction);
    // The whole direction, at the beginning of the scratch, becomes what the parameters move by: there, or as many
    // elements behind it.
    float *(*transform)(const struct whole_step *step, float *scratch);
    void (*move)(const struct whole_step *step, const float *by);
};
