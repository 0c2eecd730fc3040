// SPDX-License-Identifier: Apache-2.0
// The device functions that `bench pcie` calls, so that tests can run it without a device.
#ifndef ZG_PCIE_LINK_H
#define ZG_PCIE_LINK_H

#include <stddef.h>

// Host memory: in huge pages and page-locked afterwards, as the tiers use it; page-locked, from the driver; not locked.
enum pcie_memory { PCIE_PINNED, PCIE_DRIVERS, PCIE_PAGEABLE };

// Every function acts on the device that the calling thread has entered, and on the thread's stream there.
struct pcie_link {
    int device_count;
    int (*enter)(int device);
    int (*device_open)(size_t bytes, void **out);
    void (*device_close)(void *memory);
    int (*host_open)(enum pcie_memory kind, size_t bytes, void **out);
    void (*host_close)(enum pcie_memory kind, void *memory, size_t bytes);
    int (*copy)(void *to, const void *from, size_t bytes);  // issues a copy, complete after `end`
    int (*begin)(void);                                     // starts timing
    int (*end)(double *ms);  // waits for all that was issued; *ms: the time on the stream since `begin`
    const char *name;        // of the kind of device, as results have it
};

// Returns CUDA's functions in *out. ERR_USAGE: there is no device; the message says why. Only in builds with CUDA.
int pcie_cuda(const struct pcie_link **out);

#endif
