// SPDX-License-Identifier: Apache-2.0
// A memory operation and what it is compared with, measured in turn.
#ifndef ZG_MEMORY_PAIR_H
#define ZG_MEMORY_PAIR_H

#include "bench/memory/memory_bench.h"

struct memory_pair {
    const char *name, *baseline_name;
    struct memory_work work, baseline;
    bool in_cache;
    json_t *description;  // settings of the case besides operation, threads and sizes; may be null
    double huge_share;    // of the baseline's memory; 0: not reported
    enum memory_placement placement, baseline_placement;  // of the threads; both as given: they are not bound anew
    double gain;                                          // memory_gain, after the measurement
};

// Returns by how much the median rate is higher, as a share of the baseline's; 0 unless nine tenths of the samples are
// faster than nine tenths of the baseline's, or the other way round.
double memory_gain(const struct bench_samples *samples, const struct bench_samples *baselines);

// Measures, verifies and prints a case, within its share of the time that `bench` may take. Takes ownership of the
// description.
int memory_pair_measure(struct memory_bench *bench, struct memory_pair *pair);

#endif
