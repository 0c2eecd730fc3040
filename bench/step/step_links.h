// SPDX-License-Identifier: Apache-2.0
// What the links between tiers and among ranks give each rank while all of them use the same one and nothing else: the
// bandwidths that a step's lanes are held against, and that an efficiency is predicted from.
#ifndef ZG_STEP_LINKS_H
#define ZG_STEP_LINKS_H

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/ledger/ledger.h"

struct step_links {
    double seconds;  // of a measurement
    int ranks;
    struct lane_load **loads[LANE_COUNT];       // one a rank; of the collective one for all. Null: not wanted
    struct bench_samples gb_per_s[LANE_COUNT];  // of one rank: bytes as the ledger counts them
    double items[LANE_COUNT];                   // bytes of the shortest measurement
};

// bytes: what a rank moves in a step; 0: the lane is not wanted. Only lanes that move bytes can be. Copies are over and
// over of that many, so that they come from the caches where a step's do, and between the ranks' devices and the host;
// device: null is this processor. Closed with step_links_close, also after an error.
int step_links_open(const double bytes[LANE_COUNT], int ranks, double seconds, const struct bench_storage *storage,
                    const struct bench_device *device, struct step_links *out);
void step_links_close(struct step_links *links);

// Measures each lane once, and verifies what it did. Not counted, it warms up.
int step_links_measure(struct step_links *links, bool counted);

#endif
