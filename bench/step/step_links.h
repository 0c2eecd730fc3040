// SPDX-License-Identifier: Apache-2.0
// The bandwidth that each rank gets on the links between tiers and among ranks while all ranks use one link and nothing
// else runs: the baseline of a step's lanes, and the input of the predicted efficiency.
#ifndef ZG_STEP_LINKS_H
#define ZG_STEP_LINKS_H

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/ledger/ledger.h"

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

#endif
