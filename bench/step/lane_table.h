// SPDX-License-Identifier: Apache-2.0
// Busy time and bytes of each lane per step, from a run's timeline (ref/executor/trace.h).
#pragma once

#include "bench/harness/bench.h"
#include "ref/executor/trace.h"

struct lane_table {
    struct bench_samples step_ms;              // from the first rank's start of a step to the last rank's end
    struct bench_samples busy_ms[LANE_COUNT];  // union of the lane's intervals in the step, on the busiest rank
    double bytes[LANE_COUNT];  // mean per step and rank; what ends between two steps counts in the second
};

// Makes the table of all steps but the first `skipped` and, if others remain, the last: it waits for its update, which
// other steps leave to the next one. At least one must remain, and at most BENCH_REPEAT_MAX.
void lane_table_of(const struct trace *trace, size_t skipped, struct lane_table *out);

// Returns the lane with the largest median busy time.
enum lane lane_table_busiest(const struct lane_table *table);

// Returns {"compute": {"busy_ms":..,"share":..,"bytes":..}, ...}. Null: out of memory.
json_t *lane_table_json(const struct lane_table *table);

// Returns the intervals of rank 0 in the last step of the table: [{"lane":"h2d","begin_ms":..,"end_ms":..}, ...], from
// the start of the step. Intervals less than a LANE_TIMELINE_GAPS-th of the step apart are merged. Null: out of memory.
enum { LANE_TIMELINE_GAPS = 250 };
json_t *lane_table_timeline(const struct trace *trace, size_t skipped);

void lane_table_print(const struct lane_table *table, FILE *out);
