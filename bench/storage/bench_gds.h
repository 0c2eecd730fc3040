// SPDX-License-Identifier: Apache-2.0
// The cases of `bench gds`.
#ifndef ZG_BENCH_GDS_H
#define ZG_BENCH_GDS_H

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/tier/io.h"

struct cufile_calls;

struct gds_bench {
    const struct bench_options *options;  // sizes are of a request; threads are requests in flight
    struct bench_device device;
    const struct cufile_calls *calls;
    uint64_t bytes;           // of each file, a multiple of every size of the options
    bool directions[2];       // to measure: reads, writes
    enum nvme_engine engine;  // of the path through host memory
};

// Measures and prints every case.
int gds_cases_run(const struct gds_bench *bench);

#endif
