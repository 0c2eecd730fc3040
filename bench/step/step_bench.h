// SPDX-License-Identifier: Apache-2.0
// The measurements of `zerogauge bench step` (bench_step.c), and printing them (step_print.c).
#ifndef ZG_STEP_BENCH_H
#define ZG_STEP_BENCH_H

#include "bench/harness/bench.h"
#include "bench/step/step_case.h"
#include "bench/step/step_links.h"
#include "bench/step/step_peak.h"

// The first case is one process that does all the work. At world 2 the second is two ranks that do not communicate.
enum { STEP_CASE_MAX = 10, STEP_BASELINE = 0 };

struct step_bench {
    struct bench_options options;
    struct step_setting setting;
    struct step_case cases[STEP_CASE_MAX];
    int case_count;
    int alone;  // the case whose ranks do not communicate: the second, at world 1 the first
    struct step_peak *peak;
    struct bench_samples peak_gflops, square_gflops;
    size_t square_side;
    struct step_links links;
    uint64_t begin_ns;
};

// Sets the setting's ranks from --world and --mesh; 0 and null: not given. A pipeline has twice as many micro-batches
// as stages. Keeps mesh_text. ERR_USAGE.
int step_place_ranks(struct step_setting *setting, const char *mesh_text);

// Parses a list such as "zero1,zero_infinity"; null: all that are possible, at world 1 only the process itself.
// ERR_USAGE.
enum { STEP_PRESET_COUNT = 7 };
int step_choose_presets(const char *list, const struct step_setting *setting, bool chosen[STEP_PRESET_COUNT]);

// Sets the cases: the process that does all the work, ranks that do not communicate, and the presets.
void step_choose_cases(struct step_bench *bench, const bool chosen[STEP_PRESET_COUNT]);

// Prints the step and its flops for each case from the one alone on, and the lanes of those after it. All cases have
// samples.
int step_bench_print(struct step_bench *bench);

// Runs `bench step` on the given device, ignoring --device; null: as --device says. Returns the exit status.
int bench_step_on(const struct bench_device *device, int argc, const char **argv);

#endif
