// SPDX-License-Identifier: Apache-2.0
// The dry mode: nothing runs, what would move is counted, and a virtual clock gives every operation a beginning and an
// end. An operation begins when its lane is free, when all that it depends on has ended, and not before the last wait:
// as in the overlap mode, for the dependencies are the same. Spans may be addresses of nothing.
#ifndef ZG_EXECUTOR_DRY_H
#define ZG_EXECUTOR_DRY_H

#include "ref/executor/executor.h"

// Seconds that an operation takes on a machine, by its lane and by what it declares.
typedef double executor_seconds(const void *context, const struct executor_operation *operation);

enum { EXECUTOR_NO_EVENT = -1 };

// What became of one operation.
struct executor_event {
    const char *name;
    enum lane lane;
    uint64_t begin_ns, end_ns;  // on the virtual clock, from 0
    size_t bytes;               // that it moves on its lane
    size_t times;               // operations that it stands for
    double flops;
    long after;  // the event whose end it waited for: begin_ns is that one's end_ns; EXECUTOR_NO_EVENT: for none
};

// Before the first operation; context outlives the executor. Without it every operation takes no time.
void executor_dry_time(struct executor *executor, executor_seconds *seconds, const void *context);

// The virtual clock: all that was waited for has ended.
uint64_t executor_dry_now(const struct executor *executor);

// All events in the order of issue, valid until the next operation. executor_dry_last is the index of the one that the
// last wait waited for: the end of the critical path, whose other end is reached by `after`.
const struct executor_event *executor_dry_events(const struct executor *executor, size_t *count);
long executor_dry_last(const struct executor *executor);

#endif
