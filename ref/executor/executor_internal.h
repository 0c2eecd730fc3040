// SPDX-License-Identifier: Apache-2.0
// Shared by the executor's files: the operations that are not complete, and the functions of a mode.
#pragma once

#include "ref/executor/executor.h"

#include <stdatomic.h>

enum { EXECUTOR_MESSAGE_BYTES = 2048 };

struct executor_chunk;
struct operation;

// Consecutive operations of a lane whose spans adjoin, such as the parts of a collective: the i-th spans of all are one
// range without a gap, so that one comparison with another operation covers all. It is stored in the first operation,
// whose memory stays allocated until the run ends.
struct executor_run {
    struct executor_chunk *chunk;  // that it lies in
    struct executor_run *earlier;  // on the same lane; null when that is complete
    struct operation *newest;      // of its operations
    struct executor_span *spans;   // of all its operations together
    uint64_t first, last;          // numbers, from 1, of its operations on the lane
    uint64_t issued[LANE_COUNT];   // operations of each lane when the newest one was issued
};

// An issued operation. It, its arguments and its spans lie in a chunk of the executor's arena.
struct operation {
    struct executor_chunk *chunk;
    struct operation *later;    // on the same lane
    struct operation *earlier;  // on the same lane; null when that is complete
    struct executor_run *part_of;
    struct executor_run own_run;  // the same, if it is the first one of it
    const char *name;
    int bucket;   // for which it was issued; -1: none in particular
    long number;  // in the order of issue, where versions are checked
    enum lane lane;
    int (*run)(void *arguments);
    void *arguments;
    const struct executor_span *spans;  // none of 0 bytes
    size_t span_count;
    bool meets;
    size_t bytes;
    void (*count)(const void *arguments);
    size_t times;
    double flops;
    size_t work_bytes;
    int ranks, stride;
    bool is_reduced;
    // It may start when each lane has completed this many operations. Lanes are first in, first out, so one number per
    // lane represents all dependencies on it.
    uint64_t after[LANE_COUNT];
};

// A lane's operations that are not complete, the oldest first.
struct executor_lane {
    struct operation *oldest;
    struct operation *newest;
    struct executor_run *newest_run;  // null if no operation is pending
    uint64_t issued_count;
    uint64_t completed_count;
    double bytes_per_s;  // emulated rate; 0: none
    struct executor_interval *intervals;
    size_t interval_count, interval_capacity;
};

// The functions of a mode. issue takes an operation in the arena; wait returns when no operation is pending that an
// operation with this span would run after, or without a span when none is pending; close, after such a wait, frees
// what open allocated.
struct executor_mode_operations {
    int (*open)(struct executor *executor, uint64_t seed);
    int (*issue)(struct executor *executor, struct operation *operation);
    void (*wait)(struct executor *executor, const struct executor_span *span);
    void (*close)(struct executor *executor);
};

extern const struct executor_mode_operations executor_mode_overlap;
extern const struct executor_mode_operations executor_mode_chaos;
extern const struct executor_mode_operations executor_mode_dry;
extern const struct executor_mode_operations executor_mode_log;

struct executor {
    const struct executor_mode_operations *mode;
    void *state;  // the mode's own
    int rank;
    struct tier *tier;
    executor_failed *failed;
    void *context;
    struct executor_lane lanes[LANE_COUNT];
    uint64_t pending_count;
    int bucket;  // that of the next operations
    struct executor_chunk *arena;
    size_t arena_chunks, arena_limit;  // chunks, and how many there are when the free ones are looked for
    uint64_t compared_count;           // operations or runs with which issued operations were compared, for tests
    bool recording;
    atomic_bool failing;  // set by the first operation to fail, which then writes the message and, last, code
    _Atomic int code;
    char message[EXECUTOR_MESSAGE_BYTES];
};

// Copies an operation, its arguments and its spans of more than 0 bytes into the arena; null: no memory.
struct operation *executor_copy(struct executor *executor, const struct executor_operation *given);

// Derives the operation's dependencies on the pending ones, and appends it to its lane. Where threads share the
// executor, the caller holds the lock for this, executor_ready and executor_complete.
void executor_enqueue(struct executor *executor, struct operation *operation);

// How many operations each lane must have completed before one with these spans may run; with null spans: all.
void executor_find_after(const struct executor *executor, const struct executor_span spans[], size_t span_count,
                         uint64_t after[LANE_COUNT]);

// The first pending operation that conflicts with an access to the span; null: none.
const struct operation *executor_find_conflict(const struct executor *executor, const struct executor_span *span);

// True if each lane has completed that many operations.
bool executor_reached(const struct executor *executor, const uint64_t after[LANE_COUNT]);

// The lane's oldest operation if its dependencies are complete; null otherwise.
struct operation *executor_ready(const struct executor *executor, enum lane lane);

// Removes the oldest operation of a lane, which has run or is skipped.
void executor_complete(struct executor *executor, enum lane lane);

// Runs an operation, and waits for the work that it started on an accelerator.
int executor_run(const struct operation *operation);

// Frees all operations in the arena; none is pending.
void executor_arena_reset(struct executor *executor);

// Called after every operation, on the thread that ran it: delays an emulated lane and keeps the interval. begin_ns:
// when the operation began.
void executor_ended(struct executor *executor, const struct operation *operation, uint64_t begin_ns);

// Keeps code and the calling thread's message if this is the first failure, and calls the owner's `failed`.
void executor_fail(struct executor *executor, int code);
