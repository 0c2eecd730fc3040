// SPDX-License-Identifier: Apache-2.0
// The plan of a measured run: the planner's step (plan/planner/plan.h), where each kind of operation works at the rate
// that it had in the run. What the measured step takes longer is the time between operations: threads that wake up, and
// processors that lanes share.
#ifndef ZG_OVERLAP_PLAN_H
#define ZG_OVERLAP_PLAN_H

#include "bench/step/overlap_run.h"

struct overlap_plan {
    double step_ms;
    enum lane busiest;  // the lane whose busy time is the longest,
    double busy_ms;     // and that time
};

// Plans the steps of `run` after the warm-up. ERR_MEMORY, or an error of the planner.
int overlap_plan_of(const struct overlap_bench *bench, const struct overlap_run *run, struct overlap_plan *out);

// Returns {"step_ms":.., "busiest_lane":.., "busy_ms":.., "efficiency":.., "measured":.., "difference":..}: the longest
// busy time over the step, of the plan and as measured. Null: out of memory.
json_t *overlap_plan_json(const struct overlap_plan *plan, double measured);

#endif
