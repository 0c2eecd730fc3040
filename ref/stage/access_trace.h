// SPDX-License-Identifier: Apache-2.0
// The order in which a step asks for buckets, recorded in the first step and compared in every later one: the map of
// the operator sequence that the dynamic prefetcher goes by (ZeRO-Infinity, section 6.2). When a step asks for
// something else, the order is recorded anew from there.
#ifndef ZG_ORDER_H
#define ZG_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct access_trace {
    int *buckets;  // [count], as asked for
    size_t count, capacity;
    size_t at;         // how many this step has asked for
    bool complete;     // a whole step is recorded, and this one has kept to it
    uint64_t changes;  // how often a step has left the order
};

void access_trace_close(struct access_trace *trace);

// The step asks for a bucket.
int access_trace_ask(struct access_trace *trace, int bucket);

// A step ends, and the next begins.
void access_trace_restart(struct access_trace *trace);

// The bucket asked for at that position, from 0; -1: it is not known.
int access_trace_at(const struct access_trace *trace, size_t position);

#endif
