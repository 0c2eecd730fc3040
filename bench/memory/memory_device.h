// SPDX-License-Identifier: Apache-2.0
// `bench memory --device cuda`: copies, reads, writes and Adam's mix in the memory of a GPU, by own kernels, against
// the driver's copy within the device (cudaMemcpyAsync), writes against its fill (cudaMemsetAsync).
#ifndef ZG_MEMORY_DEVICE_H
#define ZG_MEMORY_DEVICE_H

#include "bench/memory/memory_bench.h"
#include "bench/memory/memory_case.h"

// Measures, verifies and prints the chosen operations at every size of the options. Arrays that do not fit are skipped.
int memory_device_run(const struct memory_device *device, const struct memory_bench *bench);

#endif
