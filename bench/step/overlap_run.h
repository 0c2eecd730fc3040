// SPDX-License-Identifier: Apache-2.0
// One run of `bench overlap`: steps of ZeRO-3 with every state on NVMe or, to compare with, on the device.
#ifndef ZG_OVERLAP_RUN_H
#define ZG_OVERLAP_RUN_H

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "bench/step/lane_table.h"
#include "ref/train/train.h"

// What the user chose; null and 0: nothing.
struct overlap_options {
    char *model, *emulate, *text_path, *trace_path, *device;
    int world, sequences, eager;
    struct bench_options shared;
};

struct overlap_bench {
    const struct overlap_options *options;
    const struct model *model;
    struct text *text;
    struct bench_device device;
    size_t sequences, sub_groups;
    struct inject_plan inject;
};

// One run of one configuration.
struct overlap_run {
    bool infinity;  // else ZeRO-3 with everything on the device
    enum executor_mode mode;
    struct emulation emulation;
    const char *machine;  // whose proportions these are; null: rates as given
    uint64_t begin_ns, steps;
    struct trace trace;
    char digest[33];
};

// Trains; the trace is to be closed, also after an error.
int overlap_train(const struct overlap_bench *bench, struct overlap_run *run);

// Whether the run ended with the parameters and moments that the same steps have in memory, one operation after the
// other. *flops is what one rank computed there a second.
int overlap_compare(const struct overlap_bench *bench, const struct overlap_run *run, double *flops);

// bench_overlap_main on a device that the caller has, whatever --device says.
int bench_overlap_on(const struct bench_device *device, int argc, const char **argv);

#endif
