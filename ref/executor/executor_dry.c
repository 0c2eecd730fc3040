// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/executor_dry.h"

#include "base/array.h"
#include "base/err.h"
#include "ref/executor/executor_internal.h"
#include "ref/executor/reach.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

_Static_assert((int)REACH_NO_EVENT == (int)EXECUTOR_NO_EVENT, "events of the plan and of the ranges are the same");

struct dry {
    executor_seconds *seconds;
    const void *context;
    struct reach reach;
    struct executor_event *events;
    size_t event_count, event_capacity;
    long newest[LANE_COUNT];  // events; EXECUTOR_NO_EVENT: none
    long last;                // the event that ended the last wait
    bool reduces_beside;
};

static int dry_open(struct executor *executor, uint64_t seed)
{
    (void)seed;
    struct dry *dry = calloc(1, sizeof *dry);
    if (!dry)
        return err_set(ERR_MEMORY, "executor: no memory for its bookkeeping");
    dry->last = EXECUTOR_NO_EVENT;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        dry->newest[lane] = EXECUTOR_NO_EVENT;
    executor->state = dry;
    return ERR_NONE;
}

static uint64_t end_of(const struct dry *dry, long event)
{
    return event == EXECUTOR_NO_EVENT ? 0 : dry->events[event].end_ns;
}

// The one of two events that ends later.
static long later(const struct dry *dry, long a, long b)
{
    return end_of(dry, b) > end_of(dry, a) ? b : a;
}

// Replaces *after by the last to end of it and the events that an operation with these spans waits for. first[]: the
// first range of each span.
static int find_after(struct dry *dry, const struct executor_span spans[], size_t span_count,
                      struct reach_range *first[], long *after)
{
    for (size_t i = 0; i < span_count; i++) {
        const struct executor_span *span = &spans[i];
        struct reach_range *range;
        TRY(reach_cover(&dry->reach, span, &range));
        first[i] = range;
        for (; range && range->begin < (uintptr_t)span->address + span->bytes; range = range->next[0]) {
            *after = later(dry, *after, range->writer);
            if (span->access & EXECUTOR_WRITE)
                *after = later(dry, *after, range->reader);
        }
    }
    return ERR_NONE;
}

// Enters the event as the writer, or a reader, of the operation's spans, whose first ranges are given.
static void enter_spans(struct dry *dry, const struct operation *operation, struct reach_range *const first[],
                        long event)
{
    for (size_t i = 0; i < operation->span_count; i++) {
        const struct executor_span *span = &operation->spans[i];
        struct reach_range *range = first[i];
        for (; range && range->begin < (uintptr_t)span->address + span->bytes; range = range->next[0]) {
            if (span->access & EXECUTOR_WRITE) {
                range->writer = event;
                range->reader = EXECUTOR_NO_EVENT;
            } else if (range->writer != event) {
                range->reader = later(dry, range->reader, event);
            }
        }
    }
}

static int dry_issue(struct executor *executor, struct operation *operation)
{
    struct dry *dry = executor->state;
    const struct executor_operation declared = {.name = operation->name,
                                                .lane = operation->lane,
                                                .bytes = operation->bytes,
                                                .times = operation->times > 0 ? operation->times : 1,
                                                .flops = operation->flops,
                                                .work_bytes = operation->work_bytes,
                                                .ranks = operation->ranks,
                                                .stride = operation->stride};
    enum lane turn = operation->is_reduced && dry->reduces_beside ? LANE_COLLECTIVE : operation->lane;
    long number = (long)dry->event_count, after = later(dry, dry->last, dry->newest[turn]);
    double seconds = dry->seconds ? dry->seconds(dry->context, &declared) : 0;
    assert(seconds >= 0);
    struct reach_range *first[operation->span_count + 1];
    TRY(find_after(dry, operation->spans, operation->span_count, first, &after));
    uint64_t begin_ns = end_of(dry, after);
    TRY(array_grow(&dry->events, &dry->event_capacity, dry->event_count, sizeof *dry->events, "operations of a plan"));
    dry->events[dry->event_count++] = (struct executor_event){.name = operation->name,
                                                              .lane = operation->lane,
                                                              .begin_ns = begin_ns,
                                                              .end_ns = begin_ns + (uint64_t)llround(seconds * 1e9),
                                                              .bytes = operation->bytes,
                                                              .times = declared.times,
                                                              .flops = operation->flops,
                                                              .after = after};
    enter_spans(dry, operation, first, number);
    dry->newest[turn] = number;
    if (operation->count)
        operation->count(operation->arguments);
    executor_arena_reset(executor);
    return ERR_NONE;
}

static void dry_wait(struct executor *executor, const struct executor_span *span)
{
    struct dry *dry = executor->state;
    struct reach_range *first;
    int code = find_after(dry, span, span ? 1 : 0, &first, &dry->last);
    if (code != ERR_NONE)
        executor_fail(executor, code);
    for (int lane = 0; !span && lane < LANE_COUNT; lane++)
        dry->last = later(dry, dry->last, dry->newest[lane]);
}

static void dry_close(struct executor *executor)
{
    struct dry *dry = executor->state;
    reach_close(&dry->reach);
    free(dry->events);
    free(dry);
}

const struct executor_mode_operations executor_mode_dry = {dry_open, dry_issue, dry_wait, dry_close};

void executor_dry_reduces_beside(struct executor *executor)
{
    struct dry *dry = executor->state;
    dry->reduces_beside = true;
}

void executor_dry_time(struct executor *executor, executor_seconds *seconds, const void *context)
{
    assert(executor_is_dry(executor));
    struct dry *dry = executor->state;
    assert(dry->event_count == 0);
    dry->seconds = seconds;
    dry->context = context;
}

uint64_t executor_dry_now(const struct executor *executor)
{
    assert(executor_is_dry(executor));
    const struct dry *dry = executor->state;
    return end_of(dry, dry->last);
}

const struct executor_event *executor_dry_events(const struct executor *executor, size_t *count)
{
    assert(executor_is_dry(executor));
    const struct dry *dry = executor->state;
    *count = dry->event_count;
    return dry->events;
}

long executor_dry_last(const struct executor *executor)
{
    assert(executor_is_dry(executor));
    const struct dry *dry = executor->state;
    return dry->last;
}
