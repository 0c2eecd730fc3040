// SPDX-License-Identifier: Apache-2.0
// The dry mode runs no operation: it counts the bytes that would move, and a simulated clock gives every operation its
// begin and end. An operation begins when its lane is free, all its dependencies have ended and the last wait is over,
// as in the overlap mode: the dependencies are the same. Spans may be unbacked addresses.
#pragma once

#include "ref/executor/executor.h"

// The seconds that an operation takes on a machine, from its lane, bytes, flops and work_bytes.
typedef double executor_seconds(const void *context, const struct executor_operation *operation);

enum { EXECUTOR_NO_EVENT = -1 };

// One operation on the simulated clock.
struct executor_event {
    const char *name;
    enum lane lane;
    uint64_t begin_ns, end_ns;  // from 0
    size_t bytes;               // moved on its lane
    size_t times;               // equal operations that it represents; at least 1
    double flops;
    long after;  // index of the event whose end_ns is begin_ns, the last that it waited for; or EXECUTOR_NO_EVENT
};

// Sets the model of time; call before the first operation. context outlives the executor. Without a model operations
// take no time.
void executor_dry_time(struct executor *executor, executor_seconds *seconds, const void *context);

// From now on operations with is_reduced take their turn among collectives: frameworks on GPUs add what they have
// reduced in the stream that reduces, next to the passes, which in the reference wait for it.
void executor_dry_reduces_beside(struct executor *executor);

// The simulated time, in ns, at which the last wait returned.
uint64_t executor_dry_now(const struct executor *executor);

// All events in the order of issue, valid until the next operation. executor_dry_last returns the index of the event
// that ended the last wait: the end of the critical path, which `after` follows back to its start.
const struct executor_event *executor_dry_events(const struct executor *executor, size_t *count);
long executor_dry_last(const struct executor *executor);
