// SPDX-License-Identifier: Apache-2.0
// Overlap of operations in a plan's last step.
#ifndef ZG_OVERLAP_H
#define ZG_OVERLAP_H

#include "plan/planner/plan.h"

// *out: the fraction of the busy time of `of` during which `beside` runs too, 0 to 1. Each selects operations by name
// ("Adam") or by lane ("nvme_read"). The plan must have its events. ERR_USAGE: one of them takes no time; ERR_MEMORY.
int overlap_of(const struct plan *plan, const char *of, const char *beside, double *out);

#endif
