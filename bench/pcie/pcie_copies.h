// SPDX-License-Identifier: Apache-2.0
// Copies between host and devices: a thread and a stream for each device and direction, released together. The data is
// known, and every byte is compared after every sample.
#ifndef ZG_PCIE_COPIES_H
#define ZG_PCIE_COPIES_H

#include "bench/pcie/pcie_link.h"

#include <stdbool.h>
#include <stddef.h>

enum pcie_direction { PCIE_H2D, PCIE_D2H, PCIE_BOTH, PCIE_DIRECTION_COUNT };

const char *pcie_direction_name(enum pcie_direction direction);
const char *pcie_memory_name(enum pcie_memory memory);

struct pcie_setting {
    const struct pcie_link *link;
    int first_device, device_count;
    enum pcie_direction direction;  // both: together, each with memory of its own
    enum pcie_memory memory;
    size_t bytes;        // per stream and sample, a multiple of block_bytes and of 8
    size_t block_bytes;  // of one copy
};

struct pcie_copies;

// Starts the threads. An error of a stream, such as too little device memory, is reported by the first sample.
int pcie_copies_open(const struct pcie_setting *setting, struct pcie_copies **out);
void pcie_copies_close(struct pcie_copies *copies);  // null-safe

// Takes one sample: every stream clears its target, all are released together, and each then compares every byte.
// *bytes_per_s: of all streams together, by the slowest stream's time on its device. ERR_CHECK: a byte is wrong.
int pcie_copies_sample(struct pcie_copies *copies, double *bytes_per_s);

#endif
