// SPDX-License-Identifier: Apache-2.0
// Emulated lanes, which take at least as long as their rate says, and the intervals that are kept of operations.
#include "ref/flow/flow.h"

#include "base/err.h"
#include "ref/flow/flow_internal.h"

#include <criterion/criterion.h>

static const struct flow_schedule SCHEDULES[] = {{FLOW_SERIAL, 0}, {FLOW_OVERLAP, 0}, {FLOW_CHAOS, 7}};

static int nothing(void *arguments)
{
    (void)arguments;
    return ERR_NONE;
}

static void issue(struct flow *flow, const char *name, enum lane lane, size_t bytes)
{
    cr_assert_eq(flow_issue(flow, &(struct flow_operation){.name = name, .lane = lane, .run = nothing, .bytes = bytes}),
                 ERR_NONE);
}

static struct flow *open_in(struct flow_schedule schedule, const double *rates)
{
    struct flow *flow;
    cr_assert_eq(flow_open(schedule, 0, NULL, NULL, NULL, &flow), ERR_NONE);
    if (rates)
        flow_emulate(flow, rates);
    flow_record(flow, true);
    return flow;
}

// 3, 5 and 0 MB at 1 GB/s: 3, 5 and 0 ms and no less; together 8 ms on the lane.
Test(flow_record, concurrent_an_emulated_lane_is_no_faster_than_its_rate)
{
    static const double rates[LANE_COUNT] = {[LANE_H2D] = 1e9};
    for (size_t s = 0; s < sizeof SCHEDULES / sizeof *SCHEDULES; s++) {
        static const size_t bytes[] = {3000000, 5000000, 0};
        struct flow *flow = open_in(SCHEDULES[s], rates);
        size_t count;
        uint64_t begin_ns = flow_now();
        for (int i = 0; i < 3; i++)
            issue(flow, "copy", LANE_H2D, bytes[i]);
        cr_assert_eq(flow_wait(flow), ERR_NONE);
        cr_expect_geq(flow_now() - begin_ns, 8000000);
        const struct flow_interval *intervals = flow_intervals(flow, LANE_H2D, &count);
        cr_assert_eq(count, 3);
        for (int i = 0; i < 3; i++)
            cr_expect_geq(intervals[i].end_ns - intervals[i].begin_ns, bytes[i], "%d", i);
        flow_close(flow);
    }
}

// The slow lane's second half of a second is nobody else's: a lane without a rate is done before it.
Test(flow_record, concurrent_other_lanes_are_as_fast_as_they_are)
{
    static const double rates[LANE_COUNT] = {[LANE_NVME_READ] = 1e6};
    struct flow *flow = open_in(SCHEDULES[1], rates);
    size_t slow_count, fast_count;
    issue(flow, "read", LANE_NVME_READ, 500000);
    issue(flow, "write", LANE_NVME_WRITE, 500000);
    cr_assert_eq(flow_wait(flow), ERR_NONE);
    const struct flow_interval *slow = flow_intervals(flow, LANE_NVME_READ, &slow_count);
    const struct flow_interval *fast = flow_intervals(flow, LANE_NVME_WRITE, &fast_count);
    cr_assert(slow_count == 1 && fast_count == 1);
    cr_expect_geq(slow->end_ns - slow->begin_ns, 500000000);
    cr_expect_lt(fast->end_ns, slow->end_ns);
    flow_close(flow);
}

Test(flow_record, concurrent_intervals_are_in_order_with_names_and_bytes)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    enum { COUNT = 700 };
    for (size_t s = 0; s < sizeof SCHEDULES / sizeof *SCHEDULES; s++) {
        struct flow *flow = open_in(SCHEDULES[s], NULL);
        size_t count;
        uint64_t begin_ns = flow_now(), last_ns[2] = {begin_ns, begin_ns};
        for (size_t i = 0; i < COUNT; i++)
            issue(flow, names[i % 5], i % 2 ? LANE_D2H : LANE_CPU, i);
        cr_assert_eq(flow_wait(flow), ERR_NONE);
        uint64_t end_ns = flow_now();
        for (size_t i = 0; i < COUNT; i++) {
            const struct flow_interval *lane = flow_intervals(flow, i % 2 ? LANE_D2H : LANE_CPU, &count);
            const struct flow_interval *at = &lane[i / 2];
            cr_assert_eq(count, COUNT / 2);
            cr_assert_str_eq(at->name, names[i % 5]);
            cr_assert_eq(at->bytes, i);
            cr_assert_leq(last_ns[i % 2], at->begin_ns);
            cr_assert_leq(at->begin_ns, at->end_ns);
            cr_assert_leq(at->end_ns, end_ns);
            last_ns[i % 2] = at->end_ns;
        }
        flow_intervals(flow, LANE_H2D, &count);
        cr_expect_eq(count, 0);
        flow_close(flow);
    }
}

Test(flow_record, what_runs_while_nobody_records_is_not_kept)
{
    struct flow *flow = open_in(SCHEDULES[1], NULL);
    size_t count;
    issue(flow, "kept", LANE_CPU, 1);
    cr_assert_eq(flow_wait(flow), ERR_NONE);
    flow_record(flow, false);
    issue(flow, "not kept", LANE_CPU, 2);
    cr_assert_eq(flow_wait(flow), ERR_NONE);
    flow_record(flow, true);
    issue(flow, "kept again", LANE_CPU, 3);
    cr_assert_eq(flow_wait(flow), ERR_NONE);
    const struct flow_interval *intervals = flow_intervals(flow, LANE_CPU, &count);
    cr_assert_eq(count, 2);
    cr_expect_str_eq(intervals[0].name, "kept");
    cr_expect_str_eq(intervals[1].name, "kept again");
    flow_close(flow);
}
