// SPDX-License-Identifier: Apache-2.0
// What the schedules of updates that wait for less ask of the optimizer.
#pragma once

#include "ref/optimizer/optimizer.h"

// Issues the update of a bucket whose gradient is complete while others are not, during the rest of backward, if that
// is possible: if nothing is decided between gradients and update (no overflow check, no clipping and no delay), or if
// the update is speculative (speculation.c).
int optimizer_update_early(struct optimizer *optimizer, int bucket);

// True if the update of a bucket on the host is made immediately and after the decision about the step: no early,
// delayed or speculative one.
bool optimizer_follows_decision(const struct optimizer *optimizer, int bucket);
