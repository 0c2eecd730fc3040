// SPDX-License-Identifier: Apache-2.0
// The times of a plan, from the virtual clock of its dry run.
#include "plan/planner/plan_internal.h"

#include "base/err.h"
#include "plan/planner/plan_degrees.h"

#include <stdlib.h>
#include <string.h>

// The part of an event within the step, ns.
static uint64_t within(const struct executor_event *event, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t from = event->begin_ns > begin_ns ? event->begin_ns : begin_ns;
    uint64_t to = event->end_ns < end_ns ? event->end_ns : end_ns;
    return from < to ? to - from : 0;
}

static struct plan_part *part_of(struct plan *plan, const struct executor_event *event)
{
    for (int i = 0; i < plan->part_count; i++)
        if (plan->parts[i].lane == event->lane && strcmp(plan->parts[i].name, event->name) == 0)
            return &plan->parts[i];
    if (plan->part_count == PLAN_PART_MAX)
        return NULL;
    plan->parts[plan->part_count] = (struct plan_part){.name = event->name, .lane = event->lane};
    return &plan->parts[plan->part_count++];
}

static int compare_parts(const void *left, const void *right)
{
    const struct plan_part *a = left, *b = right;
    if (a->critical_s != b->critical_s)
        return a->critical_s < b->critical_s ? 1 : -1;
    return a->busy_s < b->busy_s ? 1 : a->busy_s > b->busy_s ? -1 : 0;
}

int plan_note_time(const struct plan_dry *run, struct plan *out)
{
    const struct executor *executor = run->rank.executor;
    size_t count;
    const struct executor_event *events = executor_dry_events(executor, &count);
    uint64_t begin_ns = run->step_begin_ns, end_ns = executor_dry_now(executor);
    out->step_s = (double)(end_ns - begin_ns) * 1e-9;
    for (size_t i = 0; i < count; i++) {
        bool issued = i >= run->step_first_event;
        uint64_t busy_ns = within(&events[i], begin_ns, end_ns);
        struct plan_part *part = issued || busy_ns > 0 ? part_of(out, &events[i]) : NULL;
        if (!part && (issued || busy_ns > 0))
            return err_set(ERR_INTERNAL, "a plan has more than %d kinds of operations", PLAN_PART_MAX);
        if (!part)
            continue;
        part->count += issued ? events[i].times : 0;
        part->bytes += issued ? events[i].bytes : 0;
        part->flops += issued ? events[i].flops : 0;
        out->device_flops += issued ? events[i].flops : 0;
        part->busy_s += (double)busy_ns * 1e-9;
        out->busy_s[events[i].lane] += (double)busy_ns * 1e-9;
    }
    for (long at = executor_dry_last(executor); at != EXECUTOR_NO_EVENT && events[at].end_ns > begin_ns;
         at = events[at].after) {
        double critical_s = (double)within(&events[at], begin_ns, end_ns) * 1e-9;
        part_of(out, &events[at])->critical_s += critical_s;
        out->critical_s[events[at].lane] += critical_s;
    }
    qsort(out->parts, (size_t)out->part_count, sizeof out->parts[0], compare_parts);
    return ERR_NONE;
}

// The first micro-batch reaches the last stage after P-1 stages' forwards, and its backward returns as late: P-1 times
// the passes of one micro-batch, with what they exchange, and of one of V parts of a stage that is interleaved.
void plan_note_bubble(const struct plan_dry *run, struct plan *out)
{
    static const char *const names[] = {"forward", "backward", "tensor all-to-all", "tensor all-gather",
                                        "token all-to-all"};
    const struct pipeline_schedule *schedule = &run->rank.pipeline.schedule;
    double passes_s = 0;
    for (int i = 0; i < out->part_count; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            passes_s += strcmp(out->parts[i].name, names[k]) == 0 ? out->parts[i].critical_s : 0;
    int parts = plan_degrees_parts(&run->setting->choice);
    out->bubble = plan_degrees_bubble(&run->setting->choice, schedule);
    out->bubble_s = passes_s * (schedule->stage_count - 1) / (schedule->micro_count * parts);
    out->step_s += out->bubble_s;
}
