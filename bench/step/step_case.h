// SPDX-License-Identifier: Apache-2.0
// One way to make a training step, for `zerogauge bench step`: runs of some steps, first beside unsharded Adam, then
// timed, each of which must end with the digest of the first.
#ifndef ZG_STEP_CASE_H
#define ZG_STEP_CASE_H

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/executor/emulation.h"
#include "ref/executor/executor.h"
#include "ref/model/model.h"
#include "ref/model/text.h"

enum { STEP_WORLD = 2 };

// What all cases share.
struct step_setting {
    const struct model *model;
    struct text *text;
    struct executor_schedule schedule;
    struct emulation emulation;
    const struct bench_storage *storage;
    struct bench_device device;  // that trains; rank by rank in turn
    size_t sequences;            // of a rank's micro-batch
    uint64_t steps;              // of a run; the first ones are not measured
};

struct step_case {
    const char *what, *preset;
    int world, ranks_alone;  // ranks_alone: so many runs at once, each of one rank, instead of one run
    size_t accumulation;
    // Known after step_case_verify:
    char digest[33];
    int tier;                  // the farthest one that states live on
    bool recomputes;           // backward computes the forward once more
    double bytes[LANE_COUNT];  // that a rank moves in a step between tiers and among ranks
    double optimizer_bytes;    // of them, of optimizer states to and from NVMe
    double activation_bytes;   // of them, of activations from the device to the host; back are as many
    // Each timed run adds one, its median step's:
    struct bench_samples step_ms;              // of one micro-batch a rank
    struct bench_samples busy_ms[LANE_COUNT];  // of the busiest rank, and of the run's own step
    struct bench_samples passes_ms;            // of forward and backward in it, of rank 0
    json_t *timeline;                          // of the last run's last step; null before. json_decref
};

// A run with its results compared with unsharded Adam's, bit for bit, and its bytes with the formulas. ERR_CHECK.
int step_case_verify(const struct step_setting *setting, struct step_case *c);

// A timed run; not counted, it warms up. ERR_CHECK where it ended with another digest.
int step_case_measure(const struct step_setting *setting, struct step_case *c, bool counted);

#endif
