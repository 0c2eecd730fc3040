// SPDX-License-Identifier: Apache-2.0
// What runs beside what in a plan's last step.
#ifndef ZG_OVERLAP_H
#define ZG_OVERLAP_H

#include "plan/planner/plan.h"

// The part of the time of some operations in which some others run, too: 0 to 1, in *out. Operations are named by their
// name ("Adam") or by that of their lane ("nvme_read"). The plan has kept its events. ERR_USAGE names what takes no
// time in the plan, ERR_MEMORY.
int overlap_of(const struct plan *plan, const char *of, const char *beside, double *out);

#endif
