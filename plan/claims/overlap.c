// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/overlap.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// An operation of one of the names begins (1) or ends (-1).
struct mark {
    uint64_t at_ns;
    int which, change;
};

static int compare(const void *left, const void *right)
{
    const struct mark *a = left, *b = right;
    return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

int overlap_of(const struct plan *plan, const char *const names[], int count, double *out)
{
    assert(plan->events && count >= 2 && count <= OVERLAP_NAME_MAX);
    uint64_t busy_ns[OVERLAP_NAME_MAX] = {0}, all_ns = 0;
    size_t mark_count = 0;
    int running[OVERLAP_NAME_MAX] = {0};
    struct mark *marks = malloc((plan->event_count + 1) * 2 * OVERLAP_NAME_MAX * sizeof *marks);
    if (!marks)
        return err_set(ERR_MEMORY, "no memory for the times of %zu operations", plan->event_count);
    for (size_t i = 0; i < plan->event_count; i++)
        for (int which = 0; which < count; which++) {
            const struct executor_event *event = &plan->events[i];
            if (strcmp(event->name, names[which]) != 0 && strcmp(ledger_lane_name(event->lane), names[which]) != 0)
                continue;
            marks[mark_count++] = (struct mark){event->begin_ns, which, 1};
            marks[mark_count++] = (struct mark){event->end_ns, which, -1};
        }
    qsort(marks, mark_count, sizeof *marks, compare);
    for (size_t i = 0; i + 1 < mark_count; i++) {
        uint64_t span_ns = marks[i + 1].at_ns - marks[i].at_ns;
        bool all = true;
        running[marks[i].which] += marks[i].change;
        for (int which = 0; which < count; which++) {
            busy_ns[which] += running[which] > 0 ? span_ns : 0;
            all &= running[which] > 0;
        }
        all_ns += all ? span_ns : 0;
    }
    free(marks);
    for (int i = 0; i < count; i++)
        if (busy_ns[i] == 0)
            return err_set(ERR_USAGE, "no operation or lane '%.64s' takes time in this plan", names[i]);
    *out = (double)all_ns / (double)busy_ns[0];
    return ERR_NONE;
}
