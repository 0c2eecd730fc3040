// SPDX-License-Identifier: Apache-2.0
// Clipping by the global norm: one factor for all gradients, in two forms that differ in rounding. Both are computed in
// fp32 from the norm rounded to fp32, as the implementations do on a CPU:
//   deepspeed  c = (norm + 1e-6) / max_norm; 1 / max(c, 1)
//              (ZeRO-1 and 2, stage_1_and_2.py, unscale_and_clip_grads; ZeRO-3 keeps c in double, here it does not)
//   torch      min((1 / (norm + 1e-6)) x max_norm, 1)
//              (clip_grad.py; a number divided by a tensor is the tensor's reciprocal times the number)
// DeepSpeed folds the loss scale into the reciprocal, 1 / (c x scale): the same bits where the scale is a power of 2.
#pragma once

#include "ref/config/config.h"

// norm: of the unscaled mean gradient over ranks and micro-steps. The factor is exactly 1 when max_norm is 0 (off) or
// the norm is low enough. An infinite norm, or one beyond fp32, gives 0 and a NaN gives NaN, as in both
// implementations: only the overflow check keeps such gradients from a step.
float clip_coefficient(enum clip_form form, double norm, double max_norm);
