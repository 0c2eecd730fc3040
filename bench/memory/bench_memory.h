// SPDX-License-Identifier: Apache-2.0
// The state that the parts of `bench memory` share.
#ifndef ZG_BENCH_MEMORY_H
#define ZG_BENCH_MEMORY_H

#include "bench/harness/bench.h"
#include "bench/memory/memory_nodes.h"
#include "bench/memory/memory_work.h"

struct memory_bench {
    struct bench_options options;  // sizes are bytes of an array
    char *operation, *device;      // popt's allocations; operation: null for all; device: null for the CPU
    size_t cache_bytes;
    struct memory_nodes nodes;
};

// Returns whether the user chose this operation.
bool memory_bench_wants(const struct memory_bench *bench, int operation);

// Sets sizes that the user did not give. ERR_USAGE: the operation is unknown, or a size has a wrong unit.
int memory_bench_sizes(struct memory_bench *bench, const size_t *sizes, size_t count);

// Measures the first write to fresh memory, in huge and in small pages, against writes to touched memory.
int memory_touch_run(const struct memory_bench *bench, size_t bytes, int threads);

// Measures on the device that --device names, which is not the CPU: sets the sizes, then every case. Without such a
// device all of it is skipped.
int memory_device_bench(struct memory_bench *bench);

#endif
