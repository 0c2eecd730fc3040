// SPDX-License-Identifier: Apache-2.0
// Advice for a plan that does not fit: single changes of the configuration that make it fit.
#ifndef ZG_PLAN_ADVISE_H
#define ZG_PLAN_ADVISE_H

#include "plan/planner/plan.h"
#include "plan/planner/plan_options.h"

#include <stdio.h>

// Tries one change at a time and prints those after which the plan fits, the fastest first, or that none does. Prints
// nothing if the plan fits already. ERR_MEMORY.
int plan_advise(const struct plan_options *options, const struct plan_machine *machine, const struct plan *plan,
                FILE *out);

#endif
