// SPDX-License-Identifier: Apache-2.0
// The parts of `bench nvme`, and what they share.
#ifndef ZG_BENCH_NVME_H
#define ZG_BENCH_NVME_H

#include "bench/harness/bench.h"
#include "bench/storage/fio.h"
#include "bench/storage/nvme_stream.h"

struct nvme_bench {
    struct bench_options options;  // sizes: of a request
    uint64_t bytes;                // of each file
    double seconds;                // of each run
    struct emulation emulation;    // of the rates alone
    size_t depths[BENCH_LIST_MAX];
    size_t depth_count;
    bool engines[NVME_ENGINE_COUNT], directions[STREAM_DIRECTION_COUNT];
    char fio[FIO_VERSION_BYTES];  // "": there is none
    struct nvme_files files;      // ours
    struct nvme_files fio_files;  // of the same size in the same folders, none without fio
};

// How many GB/s each direction, engine, block size and depth reaches, beside fio.
int nvme_rates_run(struct nvme_bench *bench);

// How long single requests of 4 KiB at random places take, beside fio.
int nvme_latencies_run(struct nvme_bench *bench);

// The tier's transfers with checksums, against those without.
int nvme_checksums_run(struct nvme_bench *bench);

#endif
