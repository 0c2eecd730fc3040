// SPDX-License-Identifier: Apache-2.0
// One case of `bench comm`: measuring it (comm_case.c) and printing it (comm_print.c).
#ifndef ZG_COMM_CASE_H
#define ZG_COMM_CASE_H

#include "bench/harness/bench.h"
#include "bench/comm/comm_ranks.h"

// The measurements of a case.
struct comm_found {
    struct bench_samples samples, baselines;
    const char *baseline_name;
    uint64_t begin_ns;
    uint64_t other_bits;  // elements whose bits differ between both orders, if has_other_bits
    double bus_bytes;
    bool has_other_bits;
};

// Prints the table's column headings.
void comm_print_header(int world, const struct bench_device *device);

// Print the collective in canonical order; and the library's own collective, if ranks are processes, as a separate
// record that shares the canonical one's row.
int comm_print_canonical(const struct bench_options *options, const struct comm_ranks *ranks,
                         const struct comm_found *found);
int comm_print_native(const struct bench_options *options, const struct comm_ranks *ranks,
                      const struct comm_found *found);

// Measures, verifies and prints a case, in both orders if ranks are processes. ERR_CHECK: an element is wrong.
int comm_case_run(const struct bench_options *options, const struct comm_setting *setting);

// Runs `bench comm` with ranks that are threads on the given device, ignoring --device; null: as --device says. Returns
// the exit status.
int bench_comm_on(const struct bench_device *device, int argc, const char **argv);

#endif
