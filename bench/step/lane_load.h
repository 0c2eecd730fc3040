// SPDX-License-Identifier: Apache-2.0
// Work that keeps one lane of training busy for a time, the same over and over, and proves that it was done: so that
// lanes can be run beside each other, and what each then loses be measured.
//
//   compute      products of matrices of 512 x 512, fp32, one thread
//   cpu          Adam over 4 M parameters, one thread
//   collective   reduce-scatters of 16 MiB between two ranks that are threads, in the device tier
//   h2d, d2h     copies of at most 8 MiB between host memory, page-locked for an accelerator, and the device tier
//   nvme_read    requests of 1 MiB, 32 in flight, without the page cache
//   nvme_write   the same
//
// The device tier is an accelerator's memory, or without one host memory, too.
#ifndef ZG_LANE_LOAD_H
#define ZG_LANE_LOAD_H

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/executor/emulation.h"
#include "ref/ledger/ledger.h"

#include <pthread.h>

struct lane_load;

// How a lane works: called directly; or as in training, each piece of work an operation of an executor, which throttles
// emulated lanes.
enum lane_way { LANE_DIRECT, LANE_EXECUTED };

struct lane_load_setting {
    const struct bench_storage *storage;  // the first folder is used
    const struct emulation *emulation;    // rates of lanes, in items; null: none
    size_t copy_bytes;                  // of all that is copied over and over: in the caches, if it is small; 0: 64 MiB
    const struct bench_device *device;  // that has the device tier; null: this processor
    int rank;                           // whose copies these are
};

// Opens the lane's work. Null in `out` after an error.
int lane_load_open(enum lane lane, const struct lane_load_setting *setting, struct lane_load **out);
void lane_load_close(struct lane_load *load);  // null-safe

// What an item of its rate is: "GFLOP/s" or "GB/s".
const char *lane_load_unit(enum lane lane);

// Works until `seconds` are over; what was begun then is ended. Items are operations, or bytes as the ledger counts
// them: of a copy once, of a reduce-scatter those that one rank sends; of an update those read and those written. One
// thread at a time.
struct lane_done {
    double items;
    uint64_t ns;
};
int lane_load_run(struct lane_load *load, enum lane_way way, double seconds, struct lane_done *out);

// Afterwards, when no clock runs: ERR_CHECK where what the lane left is wrong.
int lane_load_check(struct lane_load *load);

// One of several loads that work at once, each in a thread of its own.
struct lane_part {
    struct lane_load *load;
    const char *name;  // for messages
    struct lane_done done;
    // Of lane_parts_run alone:
    enum lane_way way;
    double seconds;
    uint64_t begin_ns;  // when all of them begin
    pthread_t thread;
    int code;
    char message[512];
};

// Runs them for `seconds`, and checks afterwards what each has left.
int lane_parts_run(struct lane_part parts[], int count, enum lane_way way, double seconds);

#endif
