// SPDX-License-Identifier: Apache-2.0
// The measurements of `zerogauge bench step` (bench_step.c), and printing them (step_print.c).
#pragma once

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/ledger/ledger.h"
#include "bench/step/step_case.h"
#include "bench/step/step_peak.h"

// The bandwidth that each rank gets on the links between tiers and among ranks while all ranks use one link and nothing
// else runs: the baseline of a step's lanes, and the input of the predicted efficiency.

struct step_links {
    double seconds;  // per measurement
    int ranks;
    struct lane_load **loads[LANE_COUNT];       // one per rank, or per pair for collectives. Null: not measured
    struct bench_samples gb_per_s[LANE_COUNT];  // of one rank: bytes as the ledger counts them
    double items[LANE_COUNT];                   // bytes of the shortest measurement
};

// Opens the loads. bytes: moved by a rank per step; 0: the lane is not measured. Only lanes that move bytes may have
// any. Copies repeat a buffer of this size, so that it stays in cache if a step's does. device: null is host memory.
// The caller closes *out, after an error too.
int step_links_open(const double bytes[LANE_COUNT], int ranks, double seconds, const struct bench_storage *storage,
                    const struct bench_device *device, struct step_links *out);
void step_links_close(struct step_links *links);

// Measures each lane once and verifies its work; not counted, it warms up.
int step_links_measure(struct step_links *links, bool counted);

// The first case is one process that does all the work. At world 2 the second is two ranks that do not communicate.
enum { STEP_CASE_MAX = 10, STEP_BASELINE = 0 };

struct step_bench {
    struct bench_options options;
    struct step_setting setting;
    struct step_case cases[STEP_CASE_MAX];
    int case_count;
    int alone;  // the case whose ranks do not communicate: the second, at world 1 the first
    struct step_peak *peak;
    struct bench_samples peak_gflops, square_gflops, registers_gflops;  // registers_gflops: 0 with an accelerator
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
