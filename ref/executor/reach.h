// SPDX-License-Identifier: Apache-2.0
// Who last wrote a byte, and who of those that read it since is done last: for ranges of addresses that nobody needs to
// have. Ranges that have been touched alike are one entry; a skip list holds them in order.
#ifndef ZG_REACH_H
#define ZG_REACH_H

#include "ref/executor/executor.h"

enum { REACH_LEVELS = 20, REACH_NO_EVENT = -1 };

struct reach_range {
    uintptr_t begin, end;
    long writer, reader;  // indices of events; REACH_NO_EVENT: none
    struct reach_range *next[];
};

struct reach {
    struct reach_range *first[REACH_LEVELS];
    uint64_t random;
};

// Cuts ranges so that some of them are the span, and gives the first of these; those that follow it belong to the span
// as long as they begin before its end. *out is null for a span of 0 bytes. ERR_MEMORY.
int reach_cover(struct reach *reach, const struct executor_span *span, struct reach_range **out);

// The first range of a span that is covered.
struct reach_range *reach_find(const struct reach *reach, const struct executor_span *span);

void reach_close(struct reach *reach);

#endif
