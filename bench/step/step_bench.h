// SPDX-License-Identifier: Apache-2.0
// What `zerogauge bench step` has measured (bench_step.c), and its results (step_print.c).
#ifndef ZG_STEP_BENCH_H
#define ZG_STEP_BENCH_H

#include "bench/harness/bench.h"
#include "bench/step/step_case.h"
#include "bench/step/step_links.h"
#include "bench/step/step_peak.h"

// The first two cases: one process that does all of it, and two ranks that never speak to each other.
enum { STEP_CASE_MAX = 10, STEP_BASELINE = 0, STEP_ALONE = 1 };

struct step_bench {
    struct bench_options options;
    struct step_setting setting;
    struct step_case cases[STEP_CASE_MAX];
    int case_count;
    struct step_peak *peak;
    struct bench_samples peak_gflops, square_gflops;
    size_t square_side;
    struct step_links links;
    uint64_t begin_ns;
};

// A step, its flops and its lanes, for each case but the first. Samples of all cases are there.
int step_bench_print(struct step_bench *bench);

// bench_step_main on a device that the caller has, whatever --device says.
int bench_step_on(const struct bench_device *device, int argc, const char **argv);

#endif
