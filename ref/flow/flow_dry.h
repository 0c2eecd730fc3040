// SPDX-License-Identifier: Apache-2.0
// The dry mode: nothing runs, what would move is counted, and a virtual clock gives every operation a beginning and an
// end. An operation begins when its lane is free, when all that it depends on has ended, and not before the last wait:
// as in the overlap mode, for the dependencies are the same. Spans may be addresses of nothing.
#ifndef ZG_FLOW_DRY_H
#define ZG_FLOW_DRY_H

#include "ref/flow/flow.h"

// Seconds that an operation takes on a machine, by its lane and by what it declares.
typedef double flow_seconds(const void *context, const struct flow_operation *operation);

enum { FLOW_NO_EVENT = -1 };

// What became of one operation.
struct flow_event {
    const char *name;
    enum lane lane;
    uint64_t begin_ns, end_ns;  // on the virtual clock, from 0
    size_t bytes;               // that it moves on its lane
    size_t times;               // operations that it stands for
    double flops;
    long after;  // the event whose end it waited for: begin_ns is that one's end_ns; FLOW_NO_EVENT: for none
};

// Before the first operation; context outlives the flow. Without it every operation takes no time.
void flow_dry_time(struct flow *flow, flow_seconds *seconds, const void *context);

// The virtual clock: all that was waited for has ended.
uint64_t flow_dry_now(const struct flow *flow);

// All events in the order of issue, valid until the next operation. flow_dry_last is the index of the one that the last
// wait waited for: the end of the critical path, whose other end is reached by `after`.
const struct flow_event *flow_dry_events(const struct flow *flow, size_t *count);
long flow_dry_last(const struct flow *flow);

#endif
