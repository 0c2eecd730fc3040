// SPDX-License-Identifier: Apache-2.0
// The operations of a run's timeline (ref/executor/trace.h), summed by lane and name, and so where a step's time goes.
#pragma once

#include "ref/executor/trace.h"

#include <jansson.h>

enum { LANE_KINDS_MAX = 64 };

// The operations of one name on one lane: their time, and their work in every unit that an operation may declare.
struct lane_kind {
    const char *name;  // the operations'
    enum lane lane;
    double seconds, waiting_s;  // waiting_s: of these, while the same rank computed nothing
    double flops, bytes, work_bytes, count;
};

struct lane_kinds {
    struct lane_kind kinds[LANE_KINDS_MAX];
    size_t count;
};

// Adds a rank's operations; of one that is not wholly between begin_ns and end_ns, that part. ERR_INTERNAL: there are
// more than LANE_KINDS_MAX kinds.
int lane_kinds_add(const struct trace_rank *rank, uint64_t begin_ns, uint64_t end_ns, struct lane_kinds *kinds);

// Null: there is none.
const struct lane_kind *lane_kinds_find(const struct lane_kinds *kinds, enum lane lane, const char *name);

// *out: {"LANE: OPERATION": {"calls", "ms", "waiting_ms", "rate", "unit"}, ...}, means over ranks and the steps after
// the first `skipped`, of which there is one at least; by lane, longest first. waiting_ms: while the same rank computed
// nothing. The last one, "compute: nothing", is all of that time. rate is of the operations' flops or bytes, and absent
// where they have neither. The caller releases *out; null after an error.
int lane_kinds_where(const struct trace *trace, size_t skipped, json_t **out);

void lane_kinds_print_where(const json_t *rows, FILE *out);
