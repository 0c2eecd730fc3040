// SPDX-License-Identifier: Apache-2.0
#include "bench/step/lane_kinds.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct lane_kind *lane_kinds_find(const struct lane_kinds *kinds, enum lane lane, const char *name)
{
    for (size_t i = 0; i < kinds->count; i++)
        if (kinds->kinds[i].lane == lane && strcmp(kinds->kinds[i].name, name) == 0)
            return &kinds->kinds[i];
    return NULL;
}

static int add(const struct trace_rank *rank, enum lane lane, const struct executor_interval *interval,
               uint64_t begin_ns, uint64_t end_ns, struct lane_kinds *kinds)
{
    uint64_t from = interval->begin_ns > begin_ns ? interval->begin_ns : begin_ns;
    uint64_t to = interval->end_ns < end_ns ? interval->end_ns : end_ns;
    if (from >= to)
        return ERR_NONE;
    struct lane_kind *kind = (struct lane_kind *)lane_kinds_find(kinds, lane, interval->name);
    if (!kind) {
        if (kinds->count == LANE_KINDS_MAX)
            return err_set(ERR_INTERNAL, "a run has more than %d kinds of operations", LANE_KINDS_MAX);
        kind = &kinds->kinds[kinds->count++];
        *kind = (struct lane_kind){.name = interval->name, .lane = lane};
    }
    double part = (double)(to - from) / (double)(interval->end_ns - interval->begin_ns);
    kind->seconds += (double)(to - from) * 1e-9;
    kind->waiting_s += (double)(to - from - trace_busy_ns(rank, LANE_COMPUTE, from, to)) * 1e-9;
    kind->flops += part * interval->flops;
    kind->bytes += part * (double)interval->bytes;
    kind->work_bytes += part * (double)interval->work_bytes;
    kind->count += part;
    return ERR_NONE;
}

int lane_kinds_add(const struct trace_rank *rank, uint64_t begin_ns, uint64_t end_ns, struct lane_kinds *kinds)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (size_t i = 0; i < rank->interval_count[lane]; i++)
            TRY(add(rank, (enum lane)lane, &rank->intervals[lane][i], begin_ns, end_ns, kinds));
    return ERR_NONE;
}

static int by_time(const void *a, const void *b)
{
    const struct lane_kind *first = a, *second = b;
    if (first->lane != second->lane)
        return first->lane < second->lane ? -1 : 1;
    return (first->seconds < second->seconds) - (first->seconds > second->seconds);
}

static void add_row(json_t *rows, const struct lane_kind *kind, double steps)
{
    char key[128];
    snprintf(key, sizeof key, "%s: %s", ledger_lane_name(kind->lane), kind->name);
    json_t *row = json_pack("{s:f, s:f, s:f}", "calls", kind->count / steps, "ms", kind->seconds / steps * 1e3,
                            "waiting_ms", kind->waiting_s / steps * 1e3);
    double items = kind->flops > 0 ? kind->flops : kind->bytes;
    if (items > 0) {
        json_object_set_new(row, "rate", json_real(items / kind->seconds * 1e-9));
        json_object_set_new(row, "unit", json_string(kind->flops > 0 ? "GFLOP/s" : "GB/s"));
    }
    json_object_set_new(rows, key, row);
}

int lane_kinds_where(const struct trace *trace, size_t skipped, json_t **out)
{
    struct lane_kinds kinds = {.count = 0};
    struct lane_kind nothing = {.name = "nothing", .lane = LANE_COMPUTE};
    double steps = 0;
    *out = NULL;
    for (int i = 0; i < trace->world; i++) {
        const struct trace_rank *rank = &trace->ranks[i];
        assert(rank->step_count > skipped);
        uint64_t begin_ns = rank->steps[skipped].begin_ns, end_ns = rank->steps[rank->step_count - 1].end_ns;
        TRY(lane_kinds_add(rank, begin_ns, end_ns, &kinds));
        nothing.seconds += (double)(end_ns - begin_ns - trace_busy_ns(rank, LANE_COMPUTE, begin_ns, end_ns)) * 1e-9;
        steps += (double)(rank->step_count - skipped);
    }
    nothing.waiting_s = nothing.seconds;
    qsort(kinds.kinds, kinds.count, sizeof *kinds.kinds, by_time);
    *out = json_object();
    for (size_t i = 0; i < kinds.count; i++)
        add_row(*out, &kinds.kinds[i], steps);
    add_row(*out, &nothing, steps);
    return *out ? ERR_NONE : err_set(ERR_MEMORY, "no memory for where a step's time goes");
}

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

void lane_kinds_print_where(const json_t *rows, FILE *out)
{
    fprintf(out, "    %-40s %8s %9s %11s\n", "lane: operation", "calls", "ms", "waiting ms");
    const char *key;
    json_t *row;
    json_object_foreach ((json_t *)rows, key, row) {
        fprintf(out, "    %-40s %8.1f %9.3f %11.3f", key, number(row, "calls"), number(row, "ms"),
                number(row, "waiting_ms"));
        if (json_object_get(row, "rate"))
            fprintf(out, "  %7.4g %s", number(row, "rate"), json_string_value(json_object_get(row, "unit")));
        fputc('\n', out);
    }
}
