// SPDX-License-Identifier: Apache-2.0
// Work that keeps one lane of training busy for a time and is verified, to measure how much lanes slow each other down.
//
//   compute      products of matrices of 512 x 512, fp32, one thread
//   cpu          Adam over 4 M parameters, one thread
//   collective   reduce-scatters of 16 MiB between two threads as ranks, in the device tier
//   h2d, d2h     copies of at most 8 MiB between host memory, page-locked for an accelerator, and the device tier
//   nvme_read    requests of 1 MiB, 32 in flight, without the page cache
//   nvme_write   the same
//
// The device tier is an accelerator's memory, or host memory without one.
#pragma once

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/executor/emulation.h"
#include "ref/ledger/ledger.h"

#include <pthread.h>

struct lane_load;

// DIRECT calls the work. EXECUTED issues each piece as an operation of an executor, as in training, which throttles
// emulated lanes.
enum lane_way { LANE_DIRECT, LANE_EXECUTED };

struct lane_load_setting {
    const struct bench_storage *storage;  // the first folder is used
    const struct emulation *emulation;    // rates of lanes, in items/s; null: none
    size_t copy_bytes;                    // size of the copied buffer, which stays in cache if small; 0: 64 MiB
    const struct bench_device *device;    // of the device tier; null: host memory
    int rank;                             // whose device the copies use
};

// Opens the lane's work. *out is null after an error.
int lane_load_open(enum lane lane, const struct lane_load_setting *setting, struct lane_load **out);
void lane_load_close(struct lane_load *load);  // null-safe

// Returns the unit of the lane's rate, "GFLOP/s" or "GB/s".
const char *lane_load_unit(enum lane lane);

// Prepares the calling thread, and passes once over the lane's memory, so that a run begins with warm caches and mapped
// pages whichever way it works and whatever ran before. Untimed, and verified with the run.
int lane_load_warm(struct lane_load *load);

// Works for `seconds` and finishes the piece in progress. Items are operations, or bytes as the ledger counts them: a
// copy's once, those that one rank sends in a reduce-scatter, an update's read plus written. One thread at a time.
struct lane_done {
    double items;
    uint64_t ns;
};
int lane_load_run(struct lane_load *load, enum lane_way way, double seconds, struct lane_done *out);

// Verifies the results of the last run, untimed. ERR_CHECK: some are wrong.
int lane_load_check(struct lane_load *load);

// One of several loads that work together, each in a thread of its own.
struct lane_part {
    struct lane_load *load;
    const char *name;  // for messages
    struct lane_done done;
    // Set by lane_parts_run:
    struct lane_start *start;  // of all parts
    pthread_t thread;
    int code;
    char message[512];
};

// Warms all parts up, runs them together for `seconds`, then verifies the results of each.
int lane_parts_run(struct lane_part parts[], int count, enum lane_way way, double seconds);
