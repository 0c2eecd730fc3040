// SPDX-License-Identifier: Apache-2.0
// Runs the operations that a stage issues in the order of its paper. Each operation names its lane and the spans of
// memory that it reads and writes. The executor derives all dependencies from these declarations: an operation runs
// after every operation issued before it that wrote a byte it accesses, or read a byte it writes. Lanes are first in,
// first out, as CUDA streams are: all ranks run their collectives in the order of issue, and waits cannot form a cycle.
//
//   serial     executor_issue runs the operation
//   overlap    one thread per lane
//   chaos      one thread runs the ready operations in a seeded random order, with random delays and with every page
//              outside the declared spans inaccessible: an undeclared access, or a write to a span declared as read,
//              ends the program with a message that names the operation, the address and the allocation. Where a span
//              shares a page with other bytes, writing those is an error (ERR_INTERNAL), and reading them gives NaN.
//              The issuing thread may touch what no pending operation accesses, and what it waited for. Operations
//              that wait for other ranks keep the order of issue, across lanes: each rank has one thread
//   dry        touches no data and takes no time: it counts the bytes that each operation would move, and a simulated
//              clock gives each its begin and end (executor_dry.h)
//   log        as serial, under the guard of chaos, with a log of all that the issuing thread does (executor_log.h)
//
// From an operation's issue to the wait that includes it the executor owns its spans. Operations issue no operations.
#pragma once

#include "ref/ledger/ledger.h"
#include "ref/tier/tier.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum executor_mode { EXECUTOR_SERIAL, EXECUTOR_OVERLAP, EXECUTOR_CHAOS, EXECUTOR_DRY, EXECUTOR_LOG };

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
    bool meets;    // waits for other ranks, as every operation on LANE_COLLECTIVE does
    size_t bytes;  // moved on its lane: for emulated lanes, and for timelines
    // For the dry mode only. count enters the moved bytes into the ledger, as run would; null: it moves none. times:
    // this operation represents that many equal ones in sequence on its lane; bytes, flops and work_bytes are their
    // totals.
    void (*count)(const void *arguments);
    size_t times;       // 0: one
    double flops;       // floating-point operations
    size_t work_bytes;  // memory read and written, on a lane that computes; for a collective, the bytes that pass each
                        // rank in a ring algorithm
    int ranks, stride;  // of a collective: its ranks, and the distance between them; 0: the whole world
    bool is_reduced;    // adds what ranks have reduced (executor_dry_reduces_beside)
};

// The time that an operation took, for timelines, and its work as declared.
struct executor_interval {
    const char *name;
    uint64_t begin_ns, end_ns;  // CLOCK_MONOTONIC
    size_t bytes, work_bytes;
    double flops;
};

struct executor;

// Called once, on the thread that ran the first operation to fail and before any wait returns, so that the owner can
// make its peers give up. message: the operation's error.
typedef void executor_failed(void *context, const char *message);

// The bytes that an operation with these spans reads and writes; a span that is read and written counts twice.
size_t executor_span_bytes(const struct executor_span spans[], size_t span_count);

// Parses "serial", "overlap" or "chaos:SEED". ERR_USAGE lists the accepted forms.
int executor_schedule_parse(const char *text, struct executor_schedule *out);

// Opens one rank's executor; rank counts from 0. tier: the memory that chaos protects (null: none); it outlives the
// executor. failed may be null.
int executor_open(struct executor_schedule schedule, int rank, struct tier *tier, executor_failed *failed,
                  void *context, struct executor **out);

// Makes lanes with a rate (0: none) take at least bytes / rate, sleeping for the rest: emulates the links and disks of
// another machine. Call before the first operation.
void executor_emulate(struct executor *executor, const double bytes_per_s[LANE_COUNT]);

// Starts or stops keeping the interval of every operation. executor_intervals returns a lane's, in the order in which
// they ended, valid until the next operation. Call both only after a wait.
void executor_record(struct executor *executor, bool on);
const struct executor_interval *executor_intervals(const struct executor *executor, enum lane lane, size_t *count);

// True in the dry mode, in which one operation may represent several equal ones (times).
bool executor_is_dry(const struct executor *executor);
// For messages: the bucket for which operations are issued from now on; -1: none.
void executor_set_bucket(struct executor *executor, int bucket);

// Issues an operation; copies it, its arguments and its spans. After a failure no operation runs, and every call
// returns the first error.
int executor_issue(struct executor *executor, const struct executor_operation *operation);

// Returns when all issued operations are complete; returns the error of the first that failed.
int executor_wait(struct executor *executor);

// The same for the operations that an operation with this span, issued now, would run after: when it returns, the
// caller may access it. All others go on.
int executor_wait_for(struct executor *executor, const struct executor_span *span);

// Waits, then frees. Null-safe.
void executor_close(struct executor *executor);
