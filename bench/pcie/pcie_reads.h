// SPDX-License-Identifier: Apache-2.0
// Reads from NVMe in a thread of their own, during the copies that `bench pcie` measures.
#ifndef ZG_PCIE_READS_H
#define ZG_PCIE_READS_H

#include "bench/harness/nvme_stream.h"

#include <pthread.h>
#include <stdatomic.h>

struct pcie_reads {
    struct stream stream;  // set by the caller; runs again and again until the end
    pthread_t thread;
    atomic_bool ends;
    double bytes, seconds;  // of all reads so far
    int code;
    char message[512];
};

// Starts reading. ERR_MEMORY: no thread.
int pcie_reads_begin(struct pcie_reads *reads);

// Stops reading and returns the error of the reads, if there was one.
int pcie_reads_end(struct pcie_reads *reads);

#endif
