// SPDX-License-Identifier: Apache-2.0
// One case of `bench comm`.
#pragma once

#include "bench/harness/bench.h"
#include "bench/comm/comm_ranks.h"

// Prints the table's column headings.
void comm_print_header(int world, const struct bench_device *device);

// Measures, verifies and prints a case, in both orders if ranks are processes. ERR_CHECK: an element is wrong.
int comm_case_run(const struct bench_options *options, const struct comm_setting *setting);

// Runs `bench comm` with ranks that are threads on the given device, ignoring --device; null: as --device says. Returns
// the exit status.
int bench_comm_on(const struct bench_device *device, int argc, const char **argv);
