// SPDX-License-Identifier: Apache-2.0
// `bench memory --device cuda`: copies, reads, writes and Adam's mix in the memory of a GPU, by own kernels, against
// the driver's copy within the device (cudaMemcpyAsync), writes against its fill (cudaMemsetAsync).
#ifndef ZG_MEMORY_DEVICE_H
#define ZG_MEMORY_DEVICE_H

#include "bench/adam/adam_device.h"
#include "bench/memory/bench_memory.h"

// All functions but those of `adam` enqueue work of the calling thread; errors are noted until it waits.
struct memory_device {
    struct adam_device adam;  // the accelerator, its clock, and the mix
    void (*copy)(memory_word *to, const memory_word *from, size_t count);
    void (*write)(memory_word *to, size_t count, memory_word value);
    void (*read)(const memory_word *from, size_t count, memory_word *sum);  // adds to *sum on the device
    void (*set)(void *to, unsigned char byte, size_t bytes);                // the driver's own
};

// Measures, verifies and prints the chosen operations at every size of the options. Arrays that do not fit are skipped.
int memory_device_run(const struct memory_device *device, const struct memory_bench *bench);

// The whole benchmark on the device that --device names, which is not the CPU: sizes, then every case. Without such a
// device it is skipped.
int memory_device_bench(struct memory_bench *bench);

#endif
