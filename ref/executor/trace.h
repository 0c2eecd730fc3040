// SPDX-License-Identifier: Apache-2.0
// The timeline of a run: the intervals of every rank's operations (executor.h) and steps, written as a file in Chrome's
// trace event format, which Perfetto and chrome://tracing open.
#pragma once

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

// Called on a rank's own thread: trace_step adds a step that has ended; trace_take, after the last step, copies all
// intervals that the executor recorded. Both ignore a null trace.
int trace_step(struct trace *trace, int rank, uint64_t step, uint64_t begin_ns, uint64_t end_ns);
int trace_take(struct trace *trace, int rank, struct executor *executor);

// The nanoseconds between two times in which a lane was busy: the union of its intervals.
uint64_t trace_busy_ns(const struct trace_rank *rank, enum lane lane, uint64_t begin_ns, uint64_t end_ns);

// Writes one process per rank with one thread per lane and one for the steps; times in microseconds from the first
// event. emulated: the result of emulation_text. ERR_IO.
int trace_write(const struct trace *trace, const char *emulated, FILE *out);
