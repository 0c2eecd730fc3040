// SPDX-License-Identifier: Apache-2.0
// The dry run behind a plan, and the times of its last step.
#pragma once

#include "plan/planner/plan.h"
#include "ref/train/train_internal.h"

// A dry run, and the start of its last step.
struct plan_dry {
    const struct plan_setting *setting;
    struct config config;
    struct train_setting training;
    struct model_whole *whole;  // of Muon; null: all parameters are Adam's
    struct train_result result;
    struct train_rank rank;
    struct plan_lanes lanes;
    uint64_t step_begin_ns;
    size_t step_first_event;
};

// Adds up the operations of the last step, by lane and by name. ERR_INTERNAL: they have too many names.
int plan_note_time(const struct plan_dry *run, struct plan *out);

// Adds a pipeline's bubble to the step, whose times are noted.
void plan_note_bubble(const struct plan_dry *run, struct plan *out);
