// SPDX-License-Identifier: Apache-2.0
// For every range of addresses, backed by memory or not: the event that last wrote it, and of the events that read it
// since then the last to end. Neighbouring bytes with the same history share one range; a skip list keeps the ranges in
// order.
#pragma once

#include "ref/executor/executor.h"

enum { REACH_LEVELS = 20, REACH_RECENT_BITS = 10, REACH_NO_EVENT = -1 };

struct reach_range {
    uintptr_t begin, end;
    long writer, reader;  // indices of events; REACH_NO_EVENT: none
    struct reach_range *next[];
};

struct reach {
    struct reach_range *first[REACH_LEVELS];
    struct reach_range *recent[1 << REACH_RECENT_BITS];  // found last, by a hash of where they begin
    uint64_t random;
};

// Splits ranges at the borders of the span and adds those that are missing. *out is the first range of the span, and
// the ranges after it belong to the span while they begin before its end; null for a span of 0 bytes. ERR_MEMORY.
int reach_cover(struct reach *reach, const struct executor_span *span, struct reach_range **out);

void reach_close(struct reach *reach);
