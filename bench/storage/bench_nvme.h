// SPDX-License-Identifier: Apache-2.0
// The parts of `bench nvme` and the state that they share.
#pragma once

#include "bench/harness/bench.h"
#include "bench/harness/fio.h"
#include "bench/harness/nvme_stream.h"

struct nvme_bench {
    struct bench_options options;  // sizes are of a request
    uint64_t bytes;                // of each file
    double seconds;                // per run
    struct emulation emulation;    // throttles nvme_rates_run only
    size_t depths[BENCH_LIST_MAX];
    size_t depth_count;
    size_t cases_left;  // counting the running one
    bool engines[NVME_ENGINE_COUNT], directions[STREAM_DIRECTION_COUNT];
    char fio[FIO_VERSION_BYTES];  // "": without fio
    struct nvme_files files;
    struct nvme_files fio_files;  // fio's, of the same size in the same folders; empty without fio
};

// Measures the GB/s of each direction, engine, block size and depth, against fio.
int nvme_rates_run(struct nvme_bench *bench);

// Measures the latency of single requests of 4 KiB at random offsets, against fio.
int nvme_latencies_run(struct nvme_bench *bench);

// Measures the tier's transfers with checksums, against transfers without.
int nvme_checksums_run(struct nvme_bench *bench);
