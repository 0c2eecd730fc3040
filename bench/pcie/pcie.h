// SPDX-License-Identifier: Apache-2.0
// `bench pcie`: the device functions that it calls, so that tests can run it without a device; copies between host and
// devices or between two devices, a thread and a stream for each device and direction, released together; and its
// cases.
#pragma once

#include "bench/harness/bench.h"
#include "bench/harness/nvme_stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

// The memory that a device copies to and from. The host's: in huge pages and page-locked afterwards, as the tiers use
// it; page-locked, from the driver; not locked; page-locked, and read and written by a kernel in place of the copy
// engines. Another device's: by the copy engines; by a kernel.
enum pcie_memory { PCIE_PINNED, PCIE_DRIVERS, PCIE_PAGEABLE, PCIE_MAPPED, PCIE_PEER, PCIE_PEER_MAPPED };

// Every function acts on the device that the calling thread has entered, and on the thread's stream there.
struct pcie_link {
    int device_count;
    int (*enter)(int device);
    int (*device_open)(size_t bytes, void **out);
    void (*device_close)(void *memory);
    int (*host_open)(enum pcie_memory kind, size_t bytes, void **out);  // of a peer's kinds: as pinned
    void (*host_close)(enum pcie_memory kind, void *memory, size_t bytes);
    // Lets this device read and write the other's memory; *directly: without the host between them.
    int (*reach)(int other, bool *directly);
    int (*copy)(void *to, const void *from, size_t bytes);            // issues a copy, complete after `end`
    int (*copy_by_kernel)(void *to, const void *from, size_t bytes);  // likewise
    int (*wait)(void);                                                // for all that was issued
    int (*begin)(void);                                               // starts timing
    int (*end)(double *ms);  // waits for all that was issued; *ms: the time on the stream since `begin`
    // What a device's link to the host carries each way, or of links to a peer that is not -1: NVLinks, "NVLink x18",
    // or where there are none the slower of both links to the host. As of pcie_lanes_gb_per_s.
    double (*gb_per_s)(int device, int peer, char name[]);
    const char *name;  // of the kind of device, as results have it
};

// Returns CUDA's functions in *out. ERR_USAGE: there is no device; the message says why. Only in builds with CUDA.
int pcie_cuda(const struct pcie_link **out);

enum { PCIE_COPY_BYTES = 16 };  // a copy is a multiple of this, unless the copy engines make it
enum { PCIE_NAME_BYTES = 32 };

// Returns the bytes that a link of this PCIe generation and number of lanes carries each way, in GB/s, headers of
// packets included, and writes "PCIe 5 x16"; 0 and "": unknown.
double pcie_lanes_gb_per_s(double generation, double lanes, char name[PCIE_NAME_BYTES]);

enum pcie_direction { PCIE_H2D, PCIE_D2H, PCIE_BOTH, PCIE_DIRECTION_COUNT };

// "h2d", "d2h"; of a peer's memory "read" and "write".
const char *pcie_direction_name(enum pcie_memory memory, enum pcie_direction direction);
const char *pcie_memory_name(enum pcie_memory memory);
bool pcie_memory_is_peer(enum pcie_memory memory);

struct pcie_setting {
    const struct pcie_link *link;
    int first_device, device_count;
    enum pcie_direction direction;  // both: together, each with memory of its own
    enum pcie_memory memory;
    int distance;        // from a device to the peer whose memory it copies to and from, around all devices
    size_t bytes;        // per stream and sample, a multiple of block_bytes
    size_t block_bytes;  // of one copy
};

// "device 0", "0 and 1", "all 8". Returns out.
const char *pcie_devices_text(const struct pcie_setting *setting, char out[PCIE_NAME_BYTES]);

// The case of a record. The second argument is what else runs. New.
json_t *pcie_case_json(const struct pcie_setting *setting, const char *beside);

struct pcie_copies;

// Starts the threads. An error of a stream, such as too little device memory, is reported by the first sample.
int pcie_copies_open(const struct pcie_setting *setting, struct pcie_copies **out);
void pcie_copies_close(struct pcie_copies *copies);  // null-safe

// Takes one sample: every stream clears its target, all are released together, and each then compares every byte.
// *bytes_per_s: of all streams together, by the slowest stream's time on its device. ERR_CHECK: a byte is wrong.
int pcie_copies_sample(struct pcie_copies *copies, double *bytes_per_s);

// Measures each device alone, all together if there are several, each pair of devices, and device 0 during reads from
// NVMe, and prints every case. bytes: of a stream's sample, a multiple of every size of the options.
int pcie_cases_run(const struct pcie_link *link, const struct bench_options *options, size_t bytes);

// A case and its baseline: sets of copies that are sampled one after the other, and whose rates add up.
struct pcie_trial {
    const struct bench_options *options;
    struct pcie_setting setting;
    const char *beside;        // "nothing" or "nvme reads"
    struct pcie_reads *reads;  // null: nothing else runs
    const char *baseline_name;
    const struct pcie_setting *baselines;
    int baseline_count;
    bool of_link;    // prints its rate as a share of what the links carry, too
    json_t *matrix;  // of rates between devices, for the record's detail, not owned; null: none
};

// Measures a case and its baseline in turns, and prints it. *gb_per_s, or null: the median.
int pcie_trial_run(const struct pcie_trial *trial, double *gb_per_s);

// The same for a setting alone, against others.
int pcie_trial_against(const struct pcie_trial *of, const struct pcie_setting *ours, const char *baseline_name,
                       const struct pcie_setting *theirs, int their_count, double *gb_per_s);

// Measures copies of block_bytes each way, one at a time, in turn with those of another setting, and prints both ways.
int pcie_latency_against(const struct bench_options *options, const struct pcie_setting *ours,
                         const char *baseline_name, const struct pcie_setting *theirs);

// Those of a device and the host, of several sizes, by the copy engines and by kernels.
int pcie_latency_run(const struct bench_options *options, const struct pcie_setting *of);

// Each pair of devices one way, the other way, read, both ways, by kernels, and their latency; every device with its
// neighbour at the same time; and a matrix of what each writes to each. With --quick pairs but the first one way and
// the other alone.
int pcie_pairs_run(const struct pcie_trial *of);

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
