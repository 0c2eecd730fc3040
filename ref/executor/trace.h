// SPDX-License-Identifier: Apache-2.0
// What every rank's lanes did, and when: the intervals of a run's operations (executor.h) and of its steps, and their
// file in Chrome's trace event format, which Perfetto and chrome://tracing open.
#ifndef ZG_TRACE_H
#define ZG_TRACE_H

#include "ref/executor/executor.h"

#include <stdio.h>

struct trace_step {
    uint64_t step;
    uint64_t begin_ns, end_ns;  // as in struct executor_interval
};

struct trace_rank {
    struct executor_interval *intervals[LANE_COUNT];  // by lane, in the order in which they ended
    size_t interval_count[LANE_COUNT];
    struct trace_step *steps;
    size_t step_count, step_capacity;
};

struct trace {
    int world;
    struct trace_rank *ranks;
};

int trace_open(int world, struct trace *out);
void trace_close(struct trace *trace);

// For a rank's own thread: a step that has ended; and, after the last, all that its executor recorded. A null trace
// notes nothing.
int trace_step(struct trace *trace, int rank, uint64_t step, uint64_t begin_ns, uint64_t end_ns);
int trace_take(struct trace *trace, int rank, struct executor *executor);

// Nanoseconds in which a lane was busy between two times: the union of its intervals.
uint64_t trace_busy_ns(const struct trace_rank *rank, enum lane lane, uint64_t begin_ns, uint64_t end_ns);

// A process a rank, a thread a lane and one for the steps, times in microseconds since the first of all. emulated is
// what emulation_text says, "" if nothing is. ERR_IO.
int trace_write(const struct trace *trace, const char *emulated, FILE *out);

#endif
