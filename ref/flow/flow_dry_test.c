// SPDX-License-Identifier: Apache-2.0
// The virtual clock: lanes are first in, first out, dependencies are those of the spans, and the way back along the
// critical path has no gap.
#include "ref/flow/flow_dry.h"

#include "base/err.h"
#include "ref/flow/flow_internal.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { SPAN_MAX = 3, OPERATION_MAX = 400 };

static double declared_seconds(const void *context, const struct flow_operation *operation)
{
    (void)context;
    return (double)operation->bytes * 1e-9;
}

static struct flow *open_dry(void)
{
    struct flow *flow;
    cr_assert_eq(flow_open((struct flow_schedule){FLOW_DRY, 0}, 0, NULL, NULL, NULL, &flow), ERR_NONE);
    flow_dry_time(flow, declared_seconds, NULL);
    return flow;
}

static void issue(struct flow *flow, enum lane lane, size_t ns, size_t from, size_t length, enum flow_access access)
{
    const struct flow_span span = {(const void *)(uintptr_t)(0x1000 + from), length, access};
    cr_assert_eq(flow_issue(flow, &(struct flow_operation){
                                      .name = "it", .lane = lane, .bytes = ns, .spans = &span, .span_count = 1}),
                 ERR_NONE);
}

static const struct flow_event *event(const struct flow *flow, size_t i)
{
    size_t count;
    const struct flow_event *events = flow_dry_events(flow, &count);
    cr_assert_lt(i, count);
    return &events[i];
}

Test(flow_dry, a_reader_waits_for_the_writer_and_the_next_writer_for_the_reader)
{
    struct flow *flow = open_dry();
    issue(flow, LANE_H2D, 10, 0, 100, FLOW_WRITE);
    issue(flow, LANE_COMPUTE, 5, 50, 10, FLOW_READ);     // after the copy
    issue(flow, LANE_COLLECTIVE, 3, 99, 10, FLOW_READ);  // beside the other reader
    issue(flow, LANE_H2D, 7, 100, 9, FLOW_WRITE);        // beside both but for one byte
    issue(flow, LANE_D2H, 1, 55, 1, FLOW_READ_WRITE);    // after the first reader
    const uint64_t begins[] = {0, 10, 10, 13, 15};
    for (size_t i = 0; i < 5; i++)
        cr_expect_eq(event(flow, i)->begin_ns, begins[i], "%zu: %zu", i, (size_t)event(flow, i)->begin_ns);
    cr_expect_eq(flow_dry_now(flow), 0);
    cr_assert_eq(flow_wait(flow), ERR_NONE);
    cr_expect_eq(flow_dry_now(flow), 20);
    issue(flow, LANE_CPU, 2, 5000, 1, FLOW_READ);
    cr_expect_eq(event(flow, 5)->begin_ns, 20);
    cr_expect_eq(event(flow, 5)->after, 3);
    flow_close(flow);
}

// The definition: after every earlier operation of the lane, and every earlier one that conflicts.
Test(flow_dry, times_are_those_of_the_definition_for_operations_at_random)
{
    static struct {
        struct flow_operation operation;
        struct flow_span spans[SPAN_MAX];
        uint64_t end_ns;
    } all[OPERATION_MAX];
    uint64_t at = 0;
    struct flow *flow = open_dry();
    for (int n = 0; n < OPERATION_MAX; n++) {
        uint64_t begin_ns = 0;
        size_t span_count = random_below(random_at(9, at++), SPAN_MAX + 1);
        for (size_t i = 0; i < span_count; i++) {
            all[n].spans[i].address = (void *)(uintptr_t)(64 + random_below(random_at(9, at++), 300));
            all[n].spans[i].bytes = random_below(random_at(9, at++), 60);
            all[n].spans[i].access = (enum flow_access)(1 + random_below(random_at(9, at++), 3));
        }
        all[n].operation = (struct flow_operation){.name = "it",
                                                   .lane = (enum lane)random_below(random_at(9, at++), LANE_COUNT),
                                                   .bytes = random_below(random_at(9, at++), 50),
                                                   .spans = all[n].spans,
                                                   .span_count = span_count};
        for (int before = 0; before < n; before++) {
            bool waits = all[before].operation.lane == all[n].operation.lane;
            for (size_t i = 0; i < span_count; i++)
                for (size_t k = 0; k < all[before].operation.span_count; k++) {
                    const struct flow_span *a = &all[n].spans[i], *b = &all[before].spans[k];
                    uintptr_t a_begin = (uintptr_t)a->address, b_begin = (uintptr_t)b->address;
                    waits |= a->bytes > 0 && b->bytes > 0 && a_begin < b_begin + b->bytes &&
                             b_begin < a_begin + a->bytes && ((a->access | b->access) & FLOW_WRITE);
                }
            if (waits && all[before].end_ns > begin_ns)
                begin_ns = all[before].end_ns;
        }
        all[n].end_ns = begin_ns + all[n].operation.bytes;
        cr_assert_eq(flow_issue(flow, &all[n].operation), ERR_NONE);
        cr_assert_eq(event(flow, (size_t)n)->begin_ns, begin_ns, "operation %d", n);
        cr_assert_eq(event(flow, (size_t)n)->end_ns, all[n].end_ns, "operation %d", n);
    }
    cr_assert_eq(flow_wait(flow), ERR_NONE);
    uint64_t reached = flow_dry_now(flow);
    for (long i = flow_dry_last(flow); i != FLOW_NO_EVENT; i = event(flow, (size_t)i)->after) {
        cr_assert_eq(event(flow, (size_t)i)->end_ns, reached);
        reached = event(flow, (size_t)i)->begin_ns;
    }
    cr_expect_eq(reached, 0);
    flow_close(flow);
}
