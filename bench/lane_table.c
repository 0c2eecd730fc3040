// SPDX-License-Identifier: Apache-2.0
#include "lane_table.h"

#include <assert.h>

// Bytes of a lane's intervals that end in the step.
static double bytes_in(const struct trace_rank *rank, int lane, const struct trace_step *step)
{
    double bytes = 0;
    for (size_t i = 0; i < rank->interval_count[lane]; i++) {
        const struct flow_interval *interval = &rank->intervals[lane][i];
        if (interval->end_ns > step->begin_ns && interval->end_ns <= step->end_ns)
            bytes += (double)interval->bytes;
    }
    return bytes;
}

void lane_table_of(const struct trace *trace, size_t skipped, struct lane_table *out)
{
    const struct trace_rank *first = &trace->ranks[0];
    size_t count = first->step_count - skipped;
    assert(first->step_count > skipped && count <= BENCH_REPEAT_MAX);
    *out = (struct lane_table){.step_ms.count = count};
    for (size_t i = 0; i < count; i++) {
        const struct trace_step *step = &first->steps[skipped + i];
        out->step_ms.values[i] = (double)(step->end_ns - step->begin_ns) * 1e-6;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        out->busy_ms[lane].count = count;
        for (size_t i = 0; i < count; i++)
            for (int rank = 0; rank < trace->world; rank++) {
                const struct trace_rank *of = &trace->ranks[rank];
                const struct trace_step *step = &of->steps[skipped + i];
                double busy = (double)trace_busy_ns(of, (enum lane)lane, step->begin_ns, step->end_ns) * 1e-6;
                if (busy > out->busy_ms[lane].values[i])
                    out->busy_ms[lane].values[i] = busy;
                out->bytes[lane] += bytes_in(of, lane, step) / (double)count / trace->world;
            }
    }
}

enum lane lane_table_busiest(const struct lane_table *table)
{
    int busiest = 0;
    for (int lane = 1; lane < LANE_COUNT; lane++)
        if (bench_median(&table->busy_ms[lane]) > bench_median(&table->busy_ms[busiest]))
            busiest = lane;
    return (enum lane)busiest;
}

static double share_of(const struct lane_table *table, int lane)
{
    return bench_median(&table->busy_ms[lane]) / bench_median(&table->step_ms);
}

json_t *lane_table_json(const struct lane_table *table)
{
    json_t *lanes = json_object();
    for (int lane = 0; lane < LANE_COUNT; lane++)
        json_object_set_new(lanes, ledger_lane_name((enum lane)lane),
                            json_pack("{s:f,s:f,s:f}", "busy_ms", bench_median(&table->busy_ms[lane]), "share",
                                      share_of(table, lane), "bytes", table->bytes[lane]));
    return lanes;
}

void lane_table_print(const struct lane_table *table, FILE *out)
{
    fprintf(out, "    %-10s %10s %7s %12s %12s\n", "lane", "busy ms", "share", "MB a step", "MB/s busy");
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        double busy = bench_median(&table->busy_ms[lane]), bytes = table->bytes[lane];
        fprintf(out, "    %-10s %10.1f %7.3f", ledger_lane_name((enum lane)lane), busy, share_of(table, lane));
        if (bytes > 0)
            fprintf(out, " %12.3f %12.4g", bytes * 1e-6, bytes * 1e-3 / busy);
        fputc('\n', out);
    }
}
