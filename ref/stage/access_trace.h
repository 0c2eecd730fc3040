// SPDX-License-Identifier: Apache-2.0
// The order in which a step asks for buckets: the dynamic prefetcher's "internal map of the operator sequence"
// (ZeRO-Infinity, section 6.2). The first step records it and later ones are compared with it. From the position where
// a step asks for another bucket the order is recorded anew: the prefetcher "can update the operator sequence map in
// case of dynamic workflow".
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct access_trace {
    int *buckets;  // [count], as asked for
    size_t count, capacity;
    size_t at;         // buckets that this step has asked for
    bool complete;     // a whole step is recorded, and this one has kept to it
    uint64_t changes;  // times that a step has left the order
};

void access_trace_close(struct access_trace *trace);

// The step asks for a bucket.
int access_trace_ask(struct access_trace *trace, int bucket);

// A step ends, and the next begins.
void access_trace_restart(struct access_trace *trace);

// The bucket at that position of the order, from 0; -1: unknown.
int access_trace_at(const struct access_trace *trace, size_t position);
