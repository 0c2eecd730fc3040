// SPDX-License-Identifier: Apache-2.0
// The loss scale: constant, or DeepSpeed's dynamic one (fp16/loss_scaler.py, DynamicLossScaler, factor 2):
//   overflow     uses up hysteresis, while any is left; then halves the scale, down to min_scale; at min_scale it is
//                an error
//   no overflow  doubles the scale when the clean steps since the last overflow, less one, are a multiple of the
//                window; so the first doubling follows clean step number window + 1
// A doubling refills hysteresis. So does every clean step if it is consecutive. A halving does not.
#pragma once

#include "ref/config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct scaler {
    struct config_loss_scale rules;
    double scale;
    int64_t iteration;      // updates so far
    int64_t last_overflow;  // the iteration of the last overflow; -1: none
    uint64_t hysteresis;    // overflows until the scale halves, the one that halves it included
};

void scaler_open(struct scaler *scaler, const struct config_loss_scale *rules);

// The factor on the loss of the present step.
double scaler_scale(const struct scaler *scaler);

// To be called after each step's overflow check. DeepSpeed divides the step's gradients by the scale after this call,
// which in the step of a doubling is not the scale they were made with. For that one, call scaler_scale before.
// ERR_CHECK: overflow with a dynamic scale that is already at its minimum.
int scaler_update(struct scaler *scaler, bool overflow);
