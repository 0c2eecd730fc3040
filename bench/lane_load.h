// SPDX-License-Identifier: Apache-2.0
// Work that keeps one lane of training busy for a time, the same over and over, and proves that it was done: so that
// lanes can be run beside each other, and what each then loses be measured.
//
//   compute      products of matrices of 512 x 512, fp32, one thread
//   cpu          Adam over 4 M parameters, one thread
//   collective   reduce-scatters of 16 MiB between two ranks that are threads
//   h2d, d2h     copies of 8 MiB between host memory and the device tier, which is host memory, too
//   nvme_read    requests of 1 MiB, 32 in flight, without the page cache
//   nvme_write   the same
#ifndef ZG_LANE_LOAD_H
#define ZG_LANE_LOAD_H

#include "bench.h"
#include "ledger.h"

struct lane_load;

// Opens the lanes' work; of `storage` the first folder is used. Null in `out` after an error.
int lane_load_open(enum lane lane, const struct bench_storage *storage, struct lane_load **out);
void lane_load_close(struct lane_load *load);  // null-safe

// What an item of its rate is: "GFLOP/s" or "GB/s".
const char *lane_load_unit(enum lane lane);

// Works until `seconds` are over; what was begun then is ended. Items are operations or bytes: of an update and a copy
// those read and those written, of a reduce-scatter the whole buffer's. One thread at a time.
struct lane_done {
    double items;
    uint64_t ns;
};
int lane_load_run(struct lane_load *load, double seconds, struct lane_done *out);

// Afterwards, when no clock runs: ERR_CHECK where what the lane left is wrong.
int lane_load_check(struct lane_load *load);

#endif
