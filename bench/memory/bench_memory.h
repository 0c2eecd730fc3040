// SPDX-License-Identifier: Apache-2.0
// The parts of `bench memory`, and what they share.
#ifndef ZG_BENCH_MEMORY_H
#define ZG_BENCH_MEMORY_H

#include "bench/harness/bench.h"
#include "bench/memory/memory_nodes.h"
#include "bench/memory/memory_work.h"

struct memory_bench {
    struct bench_options options;  // sizes: bytes of an array
    char *operation;               // popt's allocation; null: all
    size_t cache_bytes;
    struct memory_nodes nodes;
};

// What memory costs that nobody has written yet, in huge pages and in small ones, against memory that was.
int memory_touch_run(const struct memory_bench *bench, size_t bytes, int threads);

#endif
