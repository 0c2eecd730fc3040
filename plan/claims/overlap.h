// SPDX-License-Identifier: Apache-2.0
// Overlap of operations in a plan's last step.
#ifndef ZG_OVERLAP_H
#define ZG_OVERLAP_H

#include "plan/planner/plan.h"

enum { OVERLAP_NAME_MAX = 4 };

// *out: the fraction of the busy time of names[0] during which all others run too, 0 to 1. Each of the `count` names, 2
// to OVERLAP_NAME_MAX, selects operations by name ("Adam") or by lane ("nvme_read"). The plan must have its events.
// ERR_USAGE: one of them takes no time; ERR_MEMORY.
int overlap_of(const struct plan *plan, const char *const names[], int count, double *out);

#endif
