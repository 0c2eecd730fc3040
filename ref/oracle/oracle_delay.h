// SPDX-License-Identifier: Apache-2.0
// With the delayed update (ZeRO-Offload, section 5.2), from step `start_step` on, the parameters that step i's update
// makes are first seen by the forward of step i + 2:
//
//   step i        forward and backward with P: gradient G_i; the update that makes P' from it begins
//   step i + 1    forward and backward with P, during that update: gradient G_i+1; P' is published; the update that
//                 makes P'' begins
//   step i + 2    forward and backward with P', during that update
//
// The update itself is the same: Adam on the master parameters with the gradients in their order. Only what forward
// sees is one update behind the master.
#pragma once

#include "ref/config/config.h"

#include <stdbool.h>
#include <stdint.h>

// True if the update of the run's step `step`, from 1, is delayed.
static inline bool oracle_delays(const struct config *config, uint64_t step)
{
    return config->delayed_update_start_step > 0 && step >= config->delayed_update_start_step;
}
