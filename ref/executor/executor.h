// SPDX-License-Identifier: Apache-2.0
// A stage is a program in paper order. It issues operations; each names its lane and the spans of memory it reads and
// writes. The executor derives the dependencies from those declarations alone: an operation runs after every earlier
// issued one that wrote what it reads or writes, or read what it writes. Lanes are first in, first out, as streams
// are, so all ranks run their collectives in the order of issue and no cycle of waits can be written.
//
//   serial     each operation runs inside executor_issue
//   overlap    one thread a lane
//   chaos      one thread, a seeded random choice among the heads of the lanes that are ready, random delays, and
//              every page outside the declared spans inaccessible: an undeclared access, or a write to what is only
//              read, ends the program with the operation, the address and the allocation. Where a span shares a
//              page with bytes outside of it, writing those is an error (ERR_INTERNAL), and reading them gives NaN
//
// Between an operation's issue and the next wait its spans belong to the executor, and operations issue none.
//
// A fourth mode, dry, touches no data and takes no time: what an operation would have moved is counted, and a virtual
// clock says when it would have begun and ended (executor_dry.h).
#ifndef ZG_EXECUTOR_H
#define ZG_EXECUTOR_H

#include "ref/ledger/ledger.h"
#include "ref/tier/tier.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum executor_mode { EXECUTOR_SERIAL, EXECUTOR_OVERLAP, EXECUTOR_CHAOS, EXECUTOR_DRY };

struct executor_schedule {
    enum executor_mode mode;
    uint64_t seed;  // chaos
};

enum executor_access { EXECUTOR_READ = 1, EXECUTOR_WRITE = 2, EXECUTOR_READ_WRITE = 3 };

struct executor_span {
    const void *address;
    size_t bytes;  // 0: no span
    enum executor_access access;
};

struct executor_operation {
    const char *name;  // for messages and timelines; not copied
    enum lane lane;
    int (*run)(void *arguments);  // returns 0 or an err code with the message set; may write its copy of arguments
    const void *arguments;        // copied at issue
    size_t arguments_bytes;
    const struct executor_span *spans;  // copied at issue
    size_t span_count;
    size_t bytes;  // that it moves on its lane: for emulated lanes, and for timelines
    // For the dry mode alone. count enters into the ledger what run would; null: nothing. times: so many operations
    // like this one, one after the other on its lane, are issued as one; bytes, flops and work_bytes are theirs
    // together.
    void (*count)(const void *arguments);
    size_t times;       // 0: one
    double flops;       // floating-point operations
    size_t work_bytes;  // of memory read and written, on a lane that computes; of a collective: that pass each rank
                        // when it goes around in a ring
};

// What an operation took, for timelines.
struct executor_interval {
    const char *name;
    uint64_t begin_ns, end_ns;  // CLOCK_MONOTONIC
    size_t bytes;
};

struct executor;

// Called once, on whichever thread ran the operation that failed first, before anybody waits: the owner can make its
// peers give up. message is that of the operation.
typedef void executor_failed(void *context, const char *message);

// Bytes that operations with these spans read and write.
size_t executor_span_bytes(const struct executor_span spans[], size_t span_count);

// "serial", "overlap", "chaos:SEED". ERR_USAGE names what was expected.
int executor_schedule_parse(const char *text, struct executor_schedule *out);

// One rank's executor. tier is the memory that the chaos schedule protects (null: none); failed may be null.
int executor_open(struct executor_schedule schedule, int rank, struct tier *tier, executor_failed *failed,
                  void *context, struct executor **out);

// From now on lanes with a rate (0: none) take at least as long as it says, asleep: a study of another machine's
// proportions. Before the first operation.
void executor_emulate(struct executor *executor, const double bytes_per_s[LANE_COUNT]);

// From now on every operation's interval is kept, or no longer. executor_intervals gives a lane's, in the order they
// ended; valid until the next operation. Both after a wait.
void executor_record(struct executor *executor, bool on);
const struct executor_interval *executor_intervals(const struct executor *executor, enum lane lane, size_t *count);

// Whether nothing is run: operations that are many and alike can then be issued as one.
bool executor_is_dry(const struct executor *executor);

// Issues an operation. After a failure nothing more is run, and every call returns that first error.
int executor_issue(struct executor *executor, const struct executor_operation *operation);

// Returns when all that was issued is complete. The error is that of the first operation that failed.
int executor_wait(struct executor *executor);

// Waits, then frees. Null-safe.
void executor_close(struct executor *executor);

#endif
