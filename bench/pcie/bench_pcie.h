// SPDX-License-Identifier: Apache-2.0
// The cases of `bench pcie`.
#ifndef ZG_BENCH_PCIE_H
#define ZG_BENCH_PCIE_H

#include "bench/harness/bench.h"
#include "bench/pcie/pcie_copies.h"

// Measures and prints every case: each device alone, all together if there are several, and device 0 during reads from
// NVMe. bytes: of a stream's sample, a multiple of every size of the options.
int pcie_cases_run(const struct pcie_link *link, const struct bench_options *options, size_t bytes);

#endif
