// SPDX-License-Identifier: Apache-2.0
// The loss scale: constant, or DeepSpeed's dynamic one (fp16/loss_scaler.py, DynamicLossScaler, factor 2):
//   overflow     while hysteresis is left, it is used up first and the scale stays; then every overflow halves the
//                scale, down to min_scale, and one that comes at min_scale is an error
//   no overflow  the scale doubles when the clean steps since the last overflow, less one, are a multiple of the
//                window; so the first doubling follows the clean step number window + 1
// Hysteresis is refilled by a doubling, or by every clean step if it is consecutive; not by a halving.
#ifndef ZG_SCALER_H
#define ZG_SCALER_H

#include "ref/config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct scaler {
    struct config_loss_scale rules;
    double scale;
    int64_t iteration;      // updates so far
    int64_t last_overflow;  // the iteration of the last overflow; -1: none
    uint64_t hysteresis;    // overflows that the scale still stands, itself included: at 1 it halves
};

void scaler_open(struct scaler *scaler, const struct config_loss_scale *rules);

// What the loss of the present step is multiplied by.
double scaler_scale(const struct scaler *scaler);

// After each step's overflow check. DeepSpeed divides the step's gradients by the scale after this call, which on the
// step of a doubling is not the scale they were made with; whoever wants the gradient itself asks scaler_scale before.
// ERR_CHECK: overflow with a dynamic scale that is already at its minimum.
int scaler_update(struct scaler *scaler, bool overflow);

#endif
