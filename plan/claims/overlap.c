// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/overlap.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// An operation of one of the two names begins (1) or ends (-1).
struct mark {
    uint64_t at_ns;
    int which, change;
};

static int compare(const void *left, const void *right)
{
    const struct mark *a = left, *b = right;
    return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

int overlap_of(const struct plan *plan, const char *of, const char *beside, double *out)
{
    assert(plan->events);
    const char *const names[] = {of, beside};
    uint64_t busy_ns[2] = {0}, both_ns = 0;
    size_t count = 0;
    int running[2] = {0};
    struct mark *marks = malloc((plan->event_count + 1) * 4 * sizeof *marks);
    if (!marks)
        return err_set(ERR_MEMORY, "no memory for the times of %zu operations", plan->event_count);
    for (size_t i = 0; i < 2 * plan->event_count; i++) {
        const struct executor_event *event = &plan->events[i / 2];
        int which = i % 2;
        if (strcmp(event->name, names[which]) == 0 || strcmp(ledger_lane_name(event->lane), names[which]) == 0) {
            marks[count++] = (struct mark){event->begin_ns, which, 1};
            marks[count++] = (struct mark){event->end_ns, which, -1};
        }
    }
    qsort(marks, count, sizeof *marks, compare);
    for (size_t i = 0; i + 1 < count; i++) {
        uint64_t span_ns = marks[i + 1].at_ns - marks[i].at_ns;
        running[marks[i].which] += marks[i].change;
        busy_ns[0] += running[0] > 0 ? span_ns : 0;
        busy_ns[1] += running[1] > 0 ? span_ns : 0;
        both_ns += running[0] > 0 && running[1] > 0 ? span_ns : 0;
    }
    free(marks);
    for (int i = 0; i < 2; i++)
        if (busy_ns[i] == 0)
            return err_set(ERR_USAGE, "no operation or lane '%.64s' takes time in this plan", names[i]);
    *out = (double)both_ns / (double)busy_ns[0];
    return ERR_NONE;
}
