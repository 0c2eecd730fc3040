// SPDX-License-Identifier: Apache-2.0
// What `bench pcie` asks of devices, so that its work can be tried without one.
#ifndef ZG_PCIE_LINK_H
#define ZG_PCIE_LINK_H

#include <stddef.h>

// Host memory as the tiers have it, in huge pages and locked afterwards; as the driver gives it; and as it comes.
enum pcie_memory { PCIE_PINNED, PCIE_DRIVERS, PCIE_PAGEABLE };

// Every function speaks of the device that the calling thread has entered, and of the thread's stream on it.
struct pcie_link {
    int device_count;
    int (*enter)(int device);
    int (*device_open)(size_t bytes, void **out);
    void (*device_close)(void *memory);
    int (*host_open)(enum pcie_memory kind, size_t bytes, void **out);
    void (*host_close)(enum pcie_memory kind, void *memory, size_t bytes);
    int (*copy)(void *to, const void *from, size_t bytes);  // begun; complete after `end`
    int (*begin)(void);
    int (*end)(double *ms);  // waits for what was begun; what passed on the stream since `begin`
};

// CUDA's. ERR_USAGE: there is no device, and the message says why. Built with CUDA only.
int pcie_cuda(const struct pcie_link **out);

#endif
