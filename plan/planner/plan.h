// SPDX-License-Identifier: Apache-2.0
// A plan: the memory, traffic and time of training a model on a machine. It runs the stage itself as a dry run
// (executor_dry.h), without data, on unbacked addresses and a virtual clock. Bytes equal the ledger of a real run.
//
// Ranks of one part of the model differ only in padding, so one rank represents all; rank 0 has the largest shards.
// Step times are for the steady state, and all ranks reach a collective at the same time. In a pipeline the rank's own
// passes take as long as if its stage had the head too, as the slowest stage's do, and the bubble is added to them.
#pragma once

#include "ref/config/config.h"
#include "ref/executor/executor_dry.h"
#include "ref/ledger/ledger.h"
#include "ref/model/model.h"
#include "plan/device/device_memory.h"
#include "plan/planner/plan_machine.h"

#include <stdbool.h>
#include <stdint.h>

struct plan_setting {
    const struct config *config;         // loaded for `world`
    const struct model *model;           // runnable or not (plan_model.h), cut into the configuration's tiles
    const struct plan_machine *machine;  // null: operations take no time and memory is unlimited
    int world, rank;
    // Of a GPU; a checkpointed share of 0: all blocks with activation checkpointing, else none.
    struct framework_choice choice;
    executor_seconds *seconds;  // of operations, in place of the machine's rates; null: the machine's
    const void *seconds_context;
    uint64_t steps;  // to run from the first; 0: until the steady state, with a delayed update in effect from the first
    bool only_fitting;  // where it does not fit, its memory alone is planned and no step is run; nor where it is tight,
    bool also_tight;    // unless this is true
    bool only_memory;   // no step is run
};

// All operations of one name on one lane.
struct plan_part {
    const char *name;
    enum lane lane;
    uint64_t count, bytes;  // issued in the step
    double flops;
    double busy_s;      // within the step; includes operations of a delayed update that the step before issued
    double critical_s;  // part of busy_s on the critical path
};

enum { PLAN_PART_MAX = 64 };

// By what is needed without, and with all that allocators may add.
enum plan_verdict { PLAN_FITS, PLAN_TIGHT, PLAN_DOES_NOT_FIT };

struct plan {
    // Everything is allocated before the first step and held to the end, so these bytes are the peak.
    uint64_t held_bytes[TIER_COUNT][KIND_COUNT];
    uint64_t peak_bytes[TIER_COUNT];
    // Held by a GPU implementation; no lines: the machine has no GPUs, or the model is no transformer.
    struct device_memory device;
    // By the GPU implementation's bytes where there are any, else by the peak.
    uint64_t needed_bytes[TIER_COUNT];
    // One rank's part of its node; 0: the machine has no such tier, or no machine is given.
    uint64_t available_bytes[TIER_COUNT];
    uint64_t at_most_bytes[TIER_COUNT];  // needed with what allocators add
    enum plan_verdict verdicts[TIER_COUNT], verdict;

    // Moved by this rank, in the run and in its last step.
    uint64_t run_bytes[LANE_COUNT][OPERATION_COUNT], run_count[LANE_COUNT][OPERATION_COUNT];
    uint64_t step_bytes[LANE_COUNT][OPERATION_COUNT], step_count[LANE_COUNT][OPERATION_COUNT];
    uint64_t run_sent_bytes[PURPOSE_COUNT], step_sent_bytes[PURPOSE_COUNT];
    uint64_t run_group_bytes[GROUP_COUNT], step_group_bytes[GROUP_COUNT];

    // Of the last step.
    double step_s;
    double straggler_s;   // part of step_s: the wait for the slowest of many nodes
    double bubble_s;      // part of step_s: a pipeline's, in which the rank has nothing to do
    double bubble;        // (P-1)/(VM+P-1), for P stages of V parts and M micro-batches of equal times
    uint64_t ring_bytes;  // sent in context parallelism's rings, which the ledger does not have
    double busy_s[LANE_COUNT], critical_s[LANE_COUNT];
    struct plan_part parts[PLAN_PART_MAX];  // by time on the critical path, the longest first
    int part_count;
    double model_flops;       // of a rank, on average: forward and backward, without recomputation
    double device_flops;      // with recomputation
    double peak_flops_per_s;  // of a device in the model's dtype; 0: no machine
    uint64_t tokens;          // of all ranks
    uint64_t steps;           // number of steps run
    double took_s;            // real time of the planning
};

// ERR_USAGE where a real run would fail in the same way; ERR_MEMORY.
int plan_run(const struct plan_setting *setting, struct plan *out);
