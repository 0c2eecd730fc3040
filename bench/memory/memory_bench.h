// SPDX-License-Identifier: Apache-2.0
// The state that the parts of `bench memory` share.
#pragma once

#include "bench/harness/bench.h"
#include "bench/memory/memory_nodes.h"
#include "bench/memory/memory_work.h"

// The caches and the memory of the machine.
struct memory_room {
    size_t cache_bytes;   // of all last-level caches
    size_t memory_bytes;  // that may be allocated
    bool quick;
};

struct memory_size {
    size_t bytes;        // of each array, a multiple of the stamps' distance
    bool in_cache;       // all arrays of the operation together are no larger than the caches
    size_t needs_bytes;  // memory of the smallest arrays that are larger
};

// Returns the arrays of an operation of which `sets` are open together: four times the caches together, in a quick run
// where that is more than 1 GiB twice; at least 64 MiB each; or as much as the memory permits.
struct memory_size memory_size_of(enum memory_operation operation, int sets, const struct memory_room *room);

struct memory_bench {
    struct bench_options options;      // sizes are bytes of an array
    char *operation, *device;          // popt's allocations; operation: null for all; device: null for the CPU
    size_t cache_bytes, memory_bytes;  // that the machine has, and that may be allocated
    size_t cases_left;                 // of the size that is measured
    struct memory_nodes nodes;
};

// Returns whether the user chose this operation.
bool memory_bench_wants(const struct memory_bench *bench, int operation);

// Sets sizes that the user did not give. ERR_USAGE: the operation is unknown, or a size has a wrong unit.
int memory_bench_sizes(struct memory_bench *bench, const size_t *sizes, size_t count);

// Returns the arrays of an operation of which `sets` are open together. given: the bytes of an array that the user
// gave; 0: none.
struct memory_size memory_bench_size(const struct memory_bench *bench, enum memory_operation operation, int sets,
                                     size_t given);

// Returns whether memory of the second node is measured from the first; quick runs measure two pairs.
bool memory_bench_wants_nodes(const struct memory_bench *bench, int node, int memory_node);

// Measure the operations in 4 KiB pages against huge pages, and on another node's memory against the node's own.
int memory_pages_run(struct memory_bench *bench, size_t given, int threads);
int memory_numa_run(struct memory_bench *bench, size_t given);

// Measures threads bound to cores, and to NUMA nodes where there are several, against threads as given, and prints what
// it gains; the second returns the number of cases.
int memory_affinity_run(struct memory_bench *bench, size_t given);
int memory_affinity_cases(const struct memory_bench *bench);

// Measures the first write to fresh memory, in huge and in small pages, against writes to touched memory.
int memory_touch_run(struct memory_bench *bench, size_t bytes, int threads);

// Measures on the device that --device names, which is not the CPU: sets the sizes, then every case. Without such a
// device all of it is skipped.
int memory_device_bench(struct memory_bench *bench);

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
