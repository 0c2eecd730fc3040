// SPDX-License-Identifier: Apache-2.0
// The state that the parts of `bench memory` share.
#ifndef ZG_BENCH_MEMORY_H
#define ZG_BENCH_MEMORY_H

#include "bench/harness/bench.h"
#include "bench/memory/memory_nodes.h"
#include "bench/memory/memory_work.h"

struct memory_bench {
    struct bench_options options;  // sizes are bytes of an array
    char *operation;               // popt's allocation; null: all
    size_t cache_bytes;
    struct memory_nodes nodes;
};

// Measures the first write to fresh memory, in huge and in small pages, against writes to touched memory.
int memory_touch_run(const struct memory_bench *bench, size_t bytes, int threads);

#endif
