// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/trace.h"

#include "base/array.h"
#include "base/err.h"
#include "base/file.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int trace_open(int world, struct trace *out)
{
    struct trace_rank *ranks = calloc((size_t)world, sizeof *ranks);
    *out = (struct trace){ranks ? world : 0, ranks};
    return ranks ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the timeline of %d ranks", world);
}

void trace_close(struct trace *trace)
{
    for (int rank = 0; rank < trace->world; rank++) {
        for (int lane = 0; lane < LANE_COUNT; lane++)
            free(trace->ranks[rank].intervals[lane]);
        free(trace->ranks[rank].steps);
    }
    free(trace->ranks);
    *trace = (struct trace){0};
}

int trace_step(struct trace *trace, int rank, uint64_t step, uint64_t begin_ns, uint64_t end_ns)
{
    if (!trace)
        return ERR_NONE;
    assert(rank >= 0 && rank < trace->world && step > 0 && begin_ns <= end_ns);
    struct trace_rank *of = &trace->ranks[rank];
    TRY(array_grow(&of->steps, &of->step_capacity, of->step_count, sizeof *of->steps, "steps of a timeline"));
    of->steps[of->step_count++] = (struct trace_step){step, begin_ns, end_ns};
    return ERR_NONE;
}

int trace_take(struct trace *trace, int rank, struct executor *executor)
{
    if (!trace || !executor)
        return ERR_NONE;
    assert(rank >= 0 && rank < trace->world);
    executor_wait(executor);  // the owner handles its error
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        size_t count;
        const struct executor_interval *intervals = executor_intervals(executor, (enum lane)lane, &count);
        struct executor_interval *copy = malloc(count * sizeof *copy + 1);
        if (!copy)
            return err_set(ERR_MEMORY, "no memory for the timeline of %zu operations", count);
        if (count > 0)
            memcpy(copy, intervals, count * sizeof *copy);
        trace->ranks[rank].intervals[lane] = copy;
        trace->ranks[rank].interval_count[lane] = count;
    }
    return ERR_NONE;
}

uint64_t trace_busy_ns(const struct trace_rank *rank, enum lane lane, uint64_t begin_ns, uint64_t end_ns)
{
    // A lane runs one operation at a time, in order; no nanosecond counts twice where two intervals touch.
    uint64_t busy_ns = 0, counted_to = begin_ns;
    for (size_t i = 0; i < rank->interval_count[lane]; i++) {
        const struct executor_interval *interval = &rank->intervals[lane][i];
        uint64_t from = interval->begin_ns > counted_to ? interval->begin_ns : counted_to;
        uint64_t to = interval->end_ns < end_ns ? interval->end_ns : end_ns;
        if (from >= to)
            continue;
        busy_ns += to - from;
        counted_to = to;
    }
    return busy_ns;
}

// The file being written; trace_write reports errors at the end.
struct writer {
    FILE *out;
    const struct trace *trace;
    uint64_t zero_ns;
    bool begun;
};

static uint64_t first_ns(const struct trace *trace)
{
    uint64_t first = UINT64_MAX;
    for (int rank = 0; rank < trace->world; rank++) {
        const struct trace_rank *of = &trace->ranks[rank];
        for (int lane = 0; lane < LANE_COUNT; lane++)
            if (of->interval_count[lane] > 0 && of->intervals[lane][0].begin_ns < first)
                first = of->intervals[lane][0].begin_ns;
        if (of->step_count > 0 && of->steps[0].begin_ns < first)
            first = of->steps[0].begin_ns;
    }
    return first;
}

static void write_name(struct writer *w, const char *name)
{
    json_t *text = json_string(name);
    if (!text || json_dumpf(text, w->out, JSON_ENCODE_ANY) != 0)
        fputs("\"\"", w->out);
    json_decref(text);
}

// Writes the start of an event; kind is one of the format's letters.
static void begin_event(struct writer *w, char kind, int rank, int thread, const char *name)
{
    fprintf(w->out, "%s\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"name\":", w->begun ? "," : "", kind, rank, thread);
    write_name(w, name);
    w->begun = true;
}

static void write_metadata(struct writer *w, int rank, int thread, const char *key, const char *name)
{
    begin_event(w, 'M', rank, thread, key);
    fputs(",\"args\":{\"name\":", w->out);
    write_name(w, name);
    fputs("}}", w->out);
}

// Gives the thread a name and its place in the order of lanes.
static void write_thread(struct writer *w, int rank, int thread, const char *name)
{
    write_metadata(w, rank, thread, "thread_name", name);
    begin_event(w, 'M', rank, thread, "thread_sort_index");
    fprintf(w->out, ",\"args\":{\"sort_index\":%d}}", thread);
}

static void write_times(struct writer *w, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t since_ns = begin_ns - w->zero_ns, took_ns = end_ns - begin_ns;
    fprintf(w->out, ",\"ts\":%" PRIu64 ".%03" PRIu64 ",\"dur\":%" PRIu64 ".%03" PRIu64, since_ns / 1000,
            since_ns % 1000, took_ns / 1000, took_ns % 1000);
}

static void write_interval(struct writer *w, int rank, int lane, const struct executor_interval *interval)
{
    uint64_t took_ns = interval->end_ns - interval->begin_ns;
    begin_event(w, 'X', rank, lane, interval->name);
    write_times(w, interval->begin_ns, interval->end_ns);
    if (interval->bytes > 0)
        fprintf(w->out, ",\"args\":{\"bytes\":%zu,\"GB/s\":%.6g}", interval->bytes,
                (double)interval->bytes / (double)(took_ns > 0 ? took_ns : 1));
    fputc('}', w->out);
}

static void write_rank(struct writer *w, int rank, const char *emulated)
{
    const struct trace_rank *of = &w->trace->ranks[rank];
    char name[320];
    snprintf(name, sizeof name, "rank %d%s%s", rank, *emulated ? ", EMULATED " : "", emulated);
    write_metadata(w, rank, 0, "process_name", name);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        write_thread(w, rank, lane, ledger_lane_name((enum lane)lane));
        for (size_t i = 0; i < of->interval_count[lane]; i++)
            write_interval(w, rank, lane, &of->intervals[lane][i]);
    }
    write_thread(w, rank, LANE_COUNT, "step");
    for (size_t i = 0; i < of->step_count; i++) {
        snprintf(name, sizeof name, "step %" PRIu64, of->steps[i].step);
        begin_event(w, 'X', rank, LANE_COUNT, name);
        write_times(w, of->steps[i].begin_ns, of->steps[i].end_ns);
        fputc('}', w->out);
    }
}

int trace_write(const struct trace *trace, const char *emulated, FILE *out)
{
    struct writer writer = {.out = out, .trace = trace, .zero_ns = first_ns(trace)};
    fputc('[', out);
    for (int rank = 0; rank < trace->world; rank++)
        write_rank(&writer, rank, emulated);
    fputs("\n]\n", out);
    return file_flush(out, "the timeline");
}
