// SPDX-License-Identifier: Apache-2.0
#include "bench/step/lane_table.h"

#include <assert.h>

// Returns the time from the first rank's start of a step to the last rank's end.
static struct trace_step window_of(const struct trace *trace, size_t index)
{
    struct trace_step window = trace->ranks[0].steps[index];
    for (int rank = 1; rank < trace->world; rank++) {
        const struct trace_step *step = &trace->ranks[rank].steps[index];
        window.begin_ns = step->begin_ns < window.begin_ns ? step->begin_ns : window.begin_ns;
        window.end_ns = step->end_ns > window.end_ns ? step->end_ns : window.end_ns;
    }
    return window;
}

// Returns the bytes of a lane's intervals that end after since_ns, and at until_ns at the latest.
static double bytes_between(const struct trace_rank *rank, int lane, uint64_t since_ns, uint64_t until_ns)
{
    double bytes = 0;
    for (size_t i = 0; i < rank->interval_count[lane]; i++) {
        const struct executor_interval *interval = &rank->intervals[lane][i];
        if (interval->end_ns > since_ns && interval->end_ns <= until_ns)
            bytes += (double)interval->bytes;
    }
    return bytes;
}

// An operation that ends between two steps counts in the second one. since_ns: the end of the step before.
static void add_step(const struct trace *trace, uint64_t since_ns, const struct trace_step *window,
                     struct lane_table *out)
{
    size_t at = out->step_ms.count++;
    out->step_ms.values[at] = (double)(window->end_ns - window->begin_ns) * 1e-6;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct bench_samples *samples = &out->busy_ms[lane];
        samples->values[samples->count++] = 0;
        for (int rank = 0; rank < trace->world; rank++) {
            const struct trace_rank *of = &trace->ranks[rank];
            double busy = (double)trace_busy_ns(of, (enum lane)lane, window->begin_ns, window->end_ns) * 1e-6;
            samples->values[at] = busy > samples->values[at] ? busy : samples->values[at];
            out->bytes[lane] += bytes_between(of, lane, since_ns, window->end_ns) / trace->world;
        }
    }
}

// Returns the number of steps up to the last one of the table.
static size_t table_end(const struct trace *trace, size_t skipped)
{
    size_t end = trace->ranks[0].step_count;
    return end > skipped + 1 ? end - 1 : end;
}

void lane_table_of(const struct trace *trace, size_t skipped, struct lane_table *out)
{
    size_t end = table_end(trace, skipped);
    assert(end > skipped && end - skipped <= BENCH_REPEAT_MAX);
    *out = (struct lane_table){0};
    uint64_t since_ns = skipped > 0 ? window_of(trace, skipped - 1).end_ns : window_of(trace, skipped).begin_ns;
    for (size_t i = skipped; i < end; i++) {
        const struct trace_step window = window_of(trace, i);
        add_step(trace, since_ns, &window, out);
        since_ns = window.end_ns;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        out->bytes[lane] /= (double)(end - skipped);
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

static void add_interval(json_t *timeline, int lane, const struct trace_step *step, uint64_t begin_ns, uint64_t end_ns)
{
    json_array_append_new(timeline, json_pack("{s:s, s:f, s:f}", "lane", ledger_lane_name((enum lane)lane), "begin_ms",
                                              (double)(begin_ns - step->begin_ns) * 1e-6, "end_ms",
                                              (double)(end_ns - step->begin_ns) * 1e-6));
}

// Adds a lane's intervals, which are in order and do not overlap.
static void add_lane(json_t *timeline, const struct trace_rank *rank, int lane, const struct trace_step *step)
{
    uint64_t gap_ns = (step->end_ns - step->begin_ns) / LANE_TIMELINE_GAPS, begin_ns = 0, end_ns = 0;
    for (size_t i = 0; i < rank->interval_count[lane]; i++) {
        struct executor_interval next = rank->intervals[lane][i];
        if (next.end_ns <= step->begin_ns || next.begin_ns >= step->end_ns)
            continue;
        next.begin_ns = next.begin_ns < step->begin_ns ? step->begin_ns : next.begin_ns;
        next.end_ns = next.end_ns > step->end_ns ? step->end_ns : next.end_ns;
        if (end_ns > 0 && next.begin_ns <= end_ns + gap_ns) {
            end_ns = next.end_ns > end_ns ? next.end_ns : end_ns;
            continue;
        }
        if (end_ns > 0)
            add_interval(timeline, lane, step, begin_ns, end_ns);
        begin_ns = next.begin_ns;
        end_ns = next.end_ns;
    }
    if (end_ns > 0)
        add_interval(timeline, lane, step, begin_ns, end_ns);
}

json_t *lane_table_timeline(const struct trace *trace, size_t skipped)
{
    const struct trace_rank *rank = &trace->ranks[0];
    json_t *timeline = json_array();
    for (int lane = 0; lane < LANE_COUNT && timeline; lane++)
        add_lane(timeline, rank, lane, &rank->steps[table_end(trace, skipped) - 1]);
    return timeline;
}

void lane_table_print(const struct lane_table *table, FILE *out)
{
    fprintf(out, "    %-10s %10s %7s %12s %12s\n", "lane", "busy ms", "share", "MB per step", "MB/s busy");
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        double busy = bench_median(&table->busy_ms[lane]), bytes = table->bytes[lane];
        fprintf(out, "    %-10s %10.1f %7.3f", ledger_lane_name((enum lane)lane), busy, share_of(table, lane));
        if (bytes > 0)
            fprintf(out, " %12.3f %12.4g", bytes * 1e-6, bytes * 1e-3 / busy);
        fputc('\n', out);
    }
}
