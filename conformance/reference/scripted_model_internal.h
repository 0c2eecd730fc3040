// SPDX-License-Identifier: Apache-2.0
// The scripted model: what its operations and its making share.
#pragma once

#include "conformance/reference/scripted_model.h"

// The gradients of one step: the file's data, and where each tensor begins in it.
struct scripted_step {
    char *data;
    const char **tensors;  // [micro][rank][param of the case]; NULL where it has none
};

struct scripted {
    struct model model;
    struct scripted_setting setting;
    int param_of[CASE_PARAM_MAX];
    struct model_param params[CASE_PARAM_MAX];
    struct model_layer layers[CASE_PARAM_MAX];
    int layer_params[CASE_PARAM_MAX];               // the model's parameter of each use; layers point in here
    int uses[CASE_PARAM_MAX];                       // the case's
    float *initial[CASE_PARAM_MAX];                 // by the model's parameter
    struct scripted_step steps[CASE_STEP_MAX + 1];  // by the case's step
    void **seen;                                    // [rank][micro][param of the case]
};

extern const struct model_operations scripted_operations;

// The first element of a rank's micro-step in arrays [rank][micro][param of the case].
static inline size_t scripted_position(const struct check_case *c, int rank, int micro)
{
    return ((size_t)rank * (size_t)c->accumulation + (size_t)micro) * (size_t)c->param_count;
}
