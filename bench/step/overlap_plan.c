// SPDX-License-Identifier: Apache-2.0
#include "bench/step/overlap_plan.h"

#include "base/err.h"
#include "plan/planner/plan.h"

#include <string.h>

// The operations of one name on one lane: their time, and their work in every unit that an operation may declare.
struct kind {
    const char *name;
    int lane;
    double seconds, flops, bytes, work_bytes, count;
};

struct kinds {
    struct kind kinds[PLAN_PART_MAX];
    int count;
};

// Returns the index of a kind; that of the next one if it is new.
static int find(const struct kinds *kinds, int lane, const char *name)
{
    int i = 0;
    while (i < kinds->count && (kinds->kinds[i].lane != lane || strcmp(kinds->kinds[i].name, name) != 0))
        i++;
    return i;
}

static int add(struct kinds *kinds, int lane, const struct executor_interval *interval)
{
    int index = find(kinds, lane, interval->name);
    if (index == PLAN_PART_MAX)
        return err_set(ERR_INTERNAL, "a run has more than %d kinds of operations", PLAN_PART_MAX);
    struct kind *kind = &kinds->kinds[index];
    if (index == kinds->count) {
        *kind = (struct kind){.name = interval->name, .lane = lane};
        kinds->count++;
    }
    kind->seconds += (double)(interval->end_ns - interval->begin_ns) * 1e-9;
    kind->flops += interval->flops;
    kind->bytes += (double)interval->bytes;
    kind->work_bytes += (double)interval->work_bytes;
    kind->count++;
    return ERR_NONE;
}

// The operations of rank 0 in the steps after the first `skipped`.
static int measure(const struct trace *trace, size_t skipped, struct kinds *out)
{
    const struct trace_rank *rank = &trace->ranks[0];
    *out = (struct kinds){0};
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (size_t i = 0; i < rank->interval_count[lane]; i++)
            if (rank->intervals[lane][i].begin_ns >= rank->steps[skipped].begin_ns)
                TRY(add(out, lane, &rank->intervals[lane][i]));
    return ERR_NONE;
}

// An operation's share of the time of its kind is its share of the work.
static double seconds_of(const void *context, const struct executor_operation *operation)
{
    const struct kinds *kinds = context;
    int index = find(kinds, (int)operation->lane, operation->name);
    const struct kind *kind = &kinds->kinds[index];
    if (index == kinds->count)
        return 0;
    if (kind->flops > 0)
        return kind->seconds * operation->flops / kind->flops;
    if (kind->bytes > 0)
        return kind->seconds * (double)operation->bytes / kind->bytes;
    if (kind->work_bytes > 0)
        return kind->seconds * (double)operation->work_bytes / kind->work_bytes;
    return kind->seconds * (double)operation->times / kind->count;
}

int overlap_plan_of(const struct overlap_bench *bench, const struct overlap_run *run, struct overlap_plan *out)
{
    struct config config;
    struct kinds kinds;
    struct plan plan;
    TRY(overlap_config(bench, run->infinity, &config));
    TRY(measure(&run->trace, bench->options->shared.warmup, &kinds));
    const struct plan_setting setting = {.config = &config,
                                         .model = bench->model,
                                         .world = bench->options->world,
                                         .seconds = seconds_of,
                                         .seconds_context = &kinds};
    int code = plan_run(&setting, &plan);
    *out = (struct overlap_plan){.step_ms = plan.step_s * 1e3};
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (plan.busy_s[lane] * 1e3 > out->busy_ms) {
            out->busiest = (enum lane)lane;
            out->busy_ms = plan.busy_s[lane] * 1e3;
        }
    plan_free(&plan);
    return code;
}

json_t *overlap_plan_json(const struct overlap_plan *plan, double measured)
{
    double efficiency = plan->busy_ms / plan->step_ms;
    return json_pack("{s:f, s:s, s:f, s:f, s:f, s:f}", "step_ms", plan->step_ms, "busiest_lane",
                     ledger_lane_name(plan->busiest), "busy_ms", plan->busy_ms, "efficiency", efficiency, "measured",
                     measured, "difference", measured - efficiency);
}
