// SPDX-License-Identifier: Apache-2.0
// `bench comm`: a case of it, measured and printed, and how its records look.
#ifndef ZG_COMM_CASE_H
#define ZG_COMM_CASE_H

#include "bench/harness/bench.h"
#include "bench/comm/comm_ranks.h"

// What was found of a case.
struct comm_found {
    struct bench_samples samples, limits;
    const char *baseline_name;
    uint64_t begin_ns, other_bits;
    double bus_bytes;
    bool has_other_bits;
};

void comm_print_header(int world, const struct bench_device *device);

// The collective in canonical order; and the library's own, of ranks that are processes, as a result of its own, which
// a reader sees beside the canonical one.
int comm_print_canonical(const struct bench_options *options, const struct comm_ranks *ranks,
                         const struct comm_found *found);
int comm_print_native(const struct bench_options *options, const struct comm_ranks *ranks,
                      const struct comm_found *found);

// Measures, verifies and prints a case: of ranks that are processes, both orders. ERR_CHECK: an element is wrong.
int comm_case_run(const struct bench_options *options, const struct comm_setting *setting);

// bench_comm_main on a device that the caller has, for ranks that are threads, whatever --device says.
int bench_comm_on(const struct bench_device *device, int argc, const char **argv);

#endif
