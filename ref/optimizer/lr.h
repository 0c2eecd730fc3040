// SPDX-License-Identifier: Apache-2.0
// The learning rate of a step, by DeepSpeed's schedulers (lr_schedules.py), in double. DeepSpeed moves a scheduler
// after the optimizer's step and starts at iteration -1, so applied step k has the rate of iteration k - 2, and
// the first two steps of a logarithmic warm-up from 0 have rate 0. With n = max(2, warmup_num_steps):
//   iteration i < n   gamma(i) = (1 / log n) x log(i + 1), or i / n if linear
//   WarmupLR          min + (max - min) x gamma; max from n on; min at i = -1
//   WarmupDecayLR     from n on, min + (max - min) x max(0, (total - i) / max(1, total - n))
//   WarmupCosineLR    lr x (r + gamma x (1 - r)) with r = warmup_min_ratio; from n on, lr x (c + (1 - c) x cosine)
//                     with c = cos_min_ratio, cosine = (1 + cos(pi x min(1, (i - n + 1) / max(1, total - n)))) / 2;
//                     0 at i = -1
#pragma once

#include "ref/config/config.h"

#include <stdint.h>

// applied_step counts optimizer steps from 1, without those that overflow skipped.
double lr_at(const struct config *config, uint64_t applied_step);
