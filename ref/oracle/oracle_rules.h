// SPDX-License-Identifier: Apache-2.0
// The scalars of an unsharded step, written apart from ref/optimizer, which has its own: an error in either shows as a
// difference in the bits. The sources of the rules are named in ref/optimizer/lr.h, scaler.h, clip.h and optimizer.h.
#pragma once

#include "ref/config/config.h"
#include "ref/recipe/muon.h"
#include "ref/recipe/recipe_types.h"

#include <stdbool.h>
#include <stdint.h>

// The hyper-parameters of a group of parameters in the run's step `step`, which makes update number t. Both count from
// 1.
struct adam_hyper oracle_hyper(const struct config *config, int group, uint64_t step, uint64_t t);

// Those of Muon, for the whole parameters of a group.
struct muon_hyper oracle_muon_hyper(const struct config *config, int group, uint64_t step, uint64_t t);

// The summed gradient is divided by this number: ranks x micro-steps x loss scale.
float oracle_divisor(const struct config *config, int world, double loss_scale);

// The factor by which gradients of this norm are clipped; 1 where they are not.
float oracle_clip(const struct config *config, double norm);

// DeepSpeed's loss scale, constant or dynamic.
struct oracle_loss_scale {
    double scale;
    uint64_t clean_steps;     // since the last overflow
    uint64_t overflows_left;  // until the scale halves, the overflow that halves it included
};

void oracle_loss_scale_open(const struct config *config, struct oracle_loss_scale *out);

// After each step. ERR_CHECK: overflow at the minimum loss scale.
int oracle_loss_scale_update(const struct config *config, bool overflow, struct oracle_loss_scale *scale);
