// SPDX-License-Identifier: Apache-2.0
// A plan: what training of a model would hold, move and take on a machine, found by running the stage itself dry
// (executor_dry.h): no data, addresses of nothing, a virtual clock. Bytes are those that the ledger of a real run has.
//
// Ranks differ in padding alone, so one stands for all; rank 0 has the largest shards. Step times are those of a step
// like every later one, with collectives that all ranks reach at once.
#ifndef ZG_PLAN_H
#define ZG_PLAN_H

#include "ref/config/config.h"
#include "ref/executor/executor_dry.h"
#include "ref/ledger/ledger.h"
#include "ref/model/model.h"
#include "plan/planner/plan_machine.h"

#include <stdbool.h>
#include <stdint.h>

struct plan_setting {
    const struct config *config;         // loaded for `world`
    const struct model *model;           // runnable or not (plan_model.h), cut into the configuration's tiles
    const struct plan_machine *machine;  // null: no operation takes time, and there is room for everything
    int world, rank;
    uint64_t steps;  // to run, from the first; 0: as many as it takes until each is like the one before. A delayed
                     // update is then in effect from the first on
    bool keeps_events;
};

// All operations of one name on one lane.
struct plan_part {
    const char *name;
    enum lane lane;
    uint64_t count, bytes;  // issued in the step
    double flops;
    double busy_s;      // time within the step: with a delayed update, of operations issued in the step before, too
    double critical_s;  // of it, on the critical path
};

enum { PLAN_PART_MAX = 64 };

struct plan {
    // Everything is taken before the first step and held to the end, so what is held is the peak.
    uint64_t held_bytes[TIER_COUNT][KIND_COUNT];
    uint64_t peak_bytes[TIER_COUNT];
    // A rank's part of its node; 0: the machine has none of it, or none is given.
    uint64_t available_bytes[TIER_COUNT];
    bool fits[TIER_COUNT], fits_all;

    // Moved by this rank, in the run and in its last step.
    uint64_t run_bytes[LANE_COUNT][OPERATION_COUNT], run_count[LANE_COUNT][OPERATION_COUNT];
    uint64_t step_bytes[LANE_COUNT][OPERATION_COUNT], step_count[LANE_COUNT][OPERATION_COUNT];
    uint64_t run_sent_bytes[PURPOSE_COUNT], step_sent_bytes[PURPOSE_COUNT];

    // Of the last step.
    double step_s;
    double busy_s[LANE_COUNT], critical_s[LANE_COUNT];
    struct plan_part parts[PLAN_PART_MAX];  // by time on the critical path, the longest first
    int part_count;
    struct executor_event *events;  // those that ran in it, in the order of issue, from its beginning on; owned, null
    size_t event_count;             // unless they were asked for. `after` is an index among these,
    long last_event;                // and so is this, the critical path's end
    double model_flops;             // of this rank: forward and backward, without what is computed again
    double device_flops;            // the same with it
    double peak_flops_per_s;        // of a device in the model's dtype; 0: no machine
    uint64_t tokens;                // of all ranks
    uint64_t steps;                 // that were run
    double took_s;                  // real time for all this
};

// ERR_USAGE for what a real run refuses, too; ERR_MEMORY. *out is freed with plan_free in any case.
int plan_run(const struct plan_setting *setting, struct plan *out);
void plan_free(struct plan *plan);

#endif
