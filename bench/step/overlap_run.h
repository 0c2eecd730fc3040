// SPDX-License-Identifier: Apache-2.0
// One run of `bench overlap`: steps of ZeRO-3 with every state on NVMe or, for comparison, on the device.
#pragma once

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "bench/step/lane_table.h"
#include "ref/train/train.h"

// The user's choices; null and 0: not given.
struct overlap_options {
    char *model, *emulate, *text_path, *trace_path, *device;
    int world, sequences, eager, speculative;
    struct bench_options shared;
};

struct overlap_bench {
    const struct overlap_options *options;
    const struct model *model;
    struct text *text;
    struct bench_device device;
    size_t sequences, sub_groups;
    struct inject_plan inject;
    uint64_t plain_steps;   // of the model's first run in memory; 0: there was none
    char plain_digest[33];  // with which it ended
};

// One run of one configuration.
struct overlap_run {
    bool infinity;  // false: ZeRO-3 with all states on the device
    enum executor_mode mode;
    struct emulation emulation;
    const char *machine;  // whose proportions are emulated; null: none
    uint64_t begin_ns, steps;
    struct trace trace;
    char digest[33];
    uint64_t redone_steps;    // of `steps`: updates made before the decision were dropped and made again
    uint64_t unlocked_bytes;  // host memory of all ranks that should be pinned and is not
};

// Trains. The caller closes run->trace, after an error too.
int overlap_train(const struct overlap_bench *bench, struct overlap_run *run);

// Runs the same steps serially with all states in memory, unless the model's first such run had as many, and verifies
// that `run`, if it has a digest, ended with the same. ERR_CHECK: it did not. *flops: operations per second of one rank
// in memory, set by the first run.
int overlap_compare(struct overlap_bench *bench, const struct overlap_run *run, double *flops);

// Runs `bench overlap` on the given device, ignoring --device; null: as --device says. Returns the exit status.
int bench_overlap_on(const struct bench_device *device, int argc, const char **argv);

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
