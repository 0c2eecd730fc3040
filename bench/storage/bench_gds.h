// SPDX-License-Identifier: Apache-2.0
// The cases of `bench gds`, over whatever device and cuFile there are.
#ifndef ZG_BENCH_GDS_H
#define ZG_BENCH_GDS_H

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/tier/io.h"

struct cufile_calls;

struct gds_bench {
    const struct bench_options *options;  // sizes: of a request; threads: requests in flight
    struct bench_device device;
    const struct cufile_calls *calls;
    uint64_t bytes;           // of each file; every size of the options divides it
    bool directions[2];       // to be measured: reads, writes
    enum nvme_engine engine;  // of the way through the host
};

// Measures and prints every case.
int gds_cases_run(const struct gds_bench *bench);

#endif
