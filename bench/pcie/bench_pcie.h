// SPDX-License-Identifier: Apache-2.0
// The cases of `bench pcie`, over whatever devices there are.
#ifndef ZG_BENCH_PCIE_H
#define ZG_BENCH_PCIE_H

#include "bench/harness/bench.h"
#include "bench/pcie/pcie_copies.h"

// Measures and prints every case: of each device by itself, of all at once where there are several, and beside reads
// from NVMe. bytes: of a stream's sample; every size of the options divides it.
int pcie_cases_run(const struct pcie_link *link, const struct bench_options *options, size_t bytes);

#endif
