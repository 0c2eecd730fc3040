// SPDX-License-Identifier: Apache-2.0
// One case of `bench swap`: the optimizer's step with its states on NVMe, against the slower of transfers and Adam.
#pragma once

#include "bench/harness/bench.h"
#include "bench/storage/swap_states.h"

// The settings that vary from case to case.
struct swap_case {
    size_t count, sub_group_count;
    int buffer_count, threads;
    enum nvme_engine engine;
    bool checksum;
};

// The settings that all cases share.
struct swap_bench {
    const struct bench_options *options;
    const struct bench_storage *storage;
    struct nvme_aio aio;
    struct inject_plan inject;
};

// Measures a case, verifies every bit of the states against Adam in memory, and prints. ERR_CHECK: a bit differs.
int swap_case_run(const struct swap_bench *bench, const struct swap_case *of);
