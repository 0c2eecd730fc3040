// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/overlap.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

// Times that do not touch, in ascending order.
struct spans {
    struct span {
        uint64_t begin_ns, end_ns;
    } * list;
    size_t count;
};

static int compare(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    return a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

static bool is_named(const struct executor_event *event, const char *name)
{
    return strcmp(event->name, name) == 0 || strcmp(ledger_lane_name(event->lane), name) == 0;
}

static int collect(const struct plan *plan, const char *name, struct spans *out)
{
    *out = (struct spans){.list = malloc((plan->event_count + 1) * sizeof *out->list)};
    if (!out->list)
        return err_set(ERR_MEMORY, "no memory for the times of %zu operations", plan->event_count);
    for (size_t i = 0; i < plan->event_count; i++)
        if (is_named(&plan->events[i], name) && plan->events[i].end_ns > plan->events[i].begin_ns)
            out->list[out->count++] = (struct span){plan->events[i].begin_ns, plan->events[i].end_ns};
    qsort(out->list, out->count, sizeof *out->list, compare);
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++) {
        struct span *last = kept > 0 ? &out->list[kept - 1] : NULL;
        if (!last || out->list[i].begin_ns > last->end_ns)
            out->list[kept++] = out->list[i];
        else if (out->list[i].end_ns > last->end_ns)
            last->end_ns = out->list[i].end_ns;
    }
    out->count = kept;
    return kept > 0 ? ERR_NONE : err_set(ERR_USAGE, "nothing called '%.64s' takes any time in this plan", name);
}

static double part_of(const struct spans *of, const struct spans *beside)
{
    uint64_t busy_ns = 0, both_ns = 0;
    for (size_t i = 0; i < of->count; i++)
        busy_ns += of->list[i].end_ns - of->list[i].begin_ns;
    for (size_t i = 0, j = 0; i < of->count && j < beside->count;) {
        const struct span *a = &of->list[i], *b = &beside->list[j];
        uint64_t begin_ns = a->begin_ns > b->begin_ns ? a->begin_ns : b->begin_ns;
        uint64_t end_ns = a->end_ns < b->end_ns ? a->end_ns : b->end_ns;
        both_ns += begin_ns < end_ns ? end_ns - begin_ns : 0;
        if (a->end_ns < b->end_ns)
            i++;
        else
            j++;
    }
    return (double)both_ns / (double)busy_ns;
}

int overlap_of(const struct plan *plan, const char *of, const char *beside, double *out)
{
    struct spans spans[2] = {0};
    int rc = collect(plan, of, &spans[0]);
    if (rc == ERR_NONE)
        rc = collect(plan, beside, &spans[1]);
    if (rc == ERR_NONE)
        *out = part_of(&spans[0], &spans[1]);
    free(spans[0].list);
    free(spans[1].list);
    return rc;
}
