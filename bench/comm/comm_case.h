// SPDX-License-Identifier: Apache-2.0
// One case of `bench comm`.
#pragma once

#include "bench/harness/bench.h"
#include "bench/comm/comm_ranks.h"

// Prints the table's column headings.
void comm_print_header(int world, enum dtype dtype, const struct bench_device *device);

// The measurements of a case.
struct comm_found {
    struct bench_samples samples, baselines;
    const char *baseline_name;
    uint64_t begin_ns;
    uint64_t other_bits;  // elements whose bits differ between both orders, if has_other_bits
    double bus_bytes;
    bool has_other_bits;
    struct bench_samples in_graph, called;  // the library's own, in a graph and called; empty: not measured
    size_t graph_calls;                     // in the graph
};

// The case of a record, in "canonical" order or the library's own, "native". New.
json_t *comm_case_json(const struct comm_setting *setting, const char *order);

// Prints the records of a case.
int comm_print(const struct bench_options *options, const struct comm_ranks *ranks, const struct comm_found *found);

// Measures, verifies and prints a case, in both orders if ranks are processes, and the library's own in a CUDA graph if
// it is NCCL. A case that the devices have no memory for is skipped. ERR_CHECK: an element is wrong.
int comm_case_run(const struct bench_options *options, const struct comm_setting *setting);

// Doubles *calls until a repetition of the work is long enough for a sample, by the shortest of a few trials, as rank 0
// measures it. comm: of processes; null: ranks are threads.
int comm_case_choose_calls(struct comm *comm, const struct bench_work *work, size_t *calls);

// Finds the least memory that is free on a device of the ranks; SIZE_MAX: in host memory, which is not asked.
int comm_case_free_bytes(struct comm *comm, const struct bench_device *device, uint64_t *least);

// Runs `bench comm` with ranks that are threads on the given device, ignoring --device; null: as --device says. Returns
// the exit status.
int bench_comm_on(const struct bench_device *device, int argc, const char **argv);
