// SPDX-License-Identifier: Apache-2.0
// What lanes did in the steps of a run, from its timeline (trace.h): how long each was busy, and with how many bytes.
#ifndef ZG_LANE_TABLE_H
#define ZG_LANE_TABLE_H

#include "bench/harness/bench.h"
#include "ref/executor/trace.h"

struct lane_table {
    struct bench_samples step_ms;              // from the first rank's begin of a step to the last one's end
    struct bench_samples busy_ms[LANE_COUNT];  // the union of a lane's intervals in the step, of the busiest rank
    double bytes[LANE_COUNT];                  // a step and rank, in the mean
};

// Of all steps but the first `skipped` ones; there is at least one more.
void lane_table_of(const struct trace *trace, size_t skipped, struct lane_table *out);

// The lane with the largest median of busy time.
enum lane lane_table_busiest(const struct lane_table *table);

// {"compute": {"busy_ms":..,"share":..,"bytes":..}, ...}; null where there is no memory.
json_t *lane_table_json(const struct lane_table *table);

// What the lanes of rank 0 did in its last step: [{"lane":"h2d","begin_ms":..,"end_ms":..}, ...], since the step began.
// Intervals with less than a LANE_TIMELINE_GAPS-th of the step between them are one. Null: no memory.
enum { LANE_TIMELINE_GAPS = 250 };
json_t *lane_table_timeline(const struct trace *trace);

void lane_table_print(const struct lane_table *table, FILE *out);

#endif
