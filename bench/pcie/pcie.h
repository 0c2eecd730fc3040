// SPDX-License-Identifier: Apache-2.0
// `bench pcie`: the device functions that it calls, so that tests can run it without a device; copies between host and
// devices, a thread and a stream for each device and direction, released together; and its cases.
#pragma once

#include "bench/harness/bench.h"
#include "bench/harness/nvme_stream.h"

#include <pthread.h>
#include <stdatomic.h>
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

// Measures and prints every case: each device alone, all together if there are several, and device 0 during reads from
// NVMe. bytes: of a stream's sample, a multiple of every size of the options.
int pcie_cases_run(const struct pcie_link *link, const struct bench_options *options, size_t bytes);

// Reads from NVMe in a thread of their own, during the copies.
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
