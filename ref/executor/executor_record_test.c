// SPDX-License-Identifier: Apache-2.0
// Emulated lanes take at least bytes / rate, and the executor keeps the intervals of operations.
#include "ref/executor/executor_internal.h"
#include "ref/executor/executor_test.h"

#include "base/clock.h"

static const struct executor_schedule SCHEDULES[] = {{EXECUTOR_SERIAL, 0}, {EXECUTOR_OVERLAP, 0}, {EXECUTOR_CHAOS, 7}};

static void record(struct executor *executor, const char *name, enum lane lane, size_t bytes)
{
    cr_assert_eq(
        executor_issue(executor,
                       &(struct executor_operation){.name = name, .lane = lane, .run = nothing, .bytes = bytes}),
        ERR_NONE);
}

static struct executor *open_in(struct executor_schedule schedule, const double *rates)
{
    struct executor *executor = open_executor(schedule, 0, NULL);
    if (rates)
        executor_emulate(executor, rates);
    executor_record(executor, true);
    return executor;
}

// 3, 5 and 0 MB at 1 GB/s: 3, 5 and 0 ms and no less; together 8 ms on the lane.
Test(executor_record, concurrent_an_emulated_lane_is_no_faster_than_its_rate)
{
    static const double rates[LANE_COUNT] = {[LANE_H2D] = 1e9};
    for (size_t s = 0; s < sizeof SCHEDULES / sizeof *SCHEDULES; s++) {
        static const size_t bytes[] = {3000000, 5000000, 0};
        struct executor *executor = open_in(SCHEDULES[s], rates);
        size_t count;
        uint64_t begin_ns = clock_now_ns();
        for (int i = 0; i < 3; i++)
            record(executor, "copy", LANE_H2D, bytes[i]);
        cr_assert_eq(executor_wait(executor), ERR_NONE);
        cr_expect_geq(clock_now_ns() - begin_ns, 8000000);
        const struct executor_interval *intervals = executor_intervals(executor, LANE_H2D, &count);
        cr_assert_eq(count, 3);
        for (int i = 0; i < 3; i++)
            cr_expect_geq(intervals[i].end_ns - intervals[i].begin_ns, bytes[i], "%d", i);
        executor_close(executor);
    }
}

// At the rate of the other lane, which takes half a second, the write would take 1000 seconds.
Test(executor_record, concurrent_other_lanes_are_not_throttled)
{
    static const double rates[LANE_COUNT] = {[LANE_NVME_READ] = 1e6};
    struct executor *executor = open_in(SCHEDULES[1], rates);
    size_t slow_count, fast_count;
    record(executor, "read", LANE_NVME_READ, 500000);
    record(executor, "write", LANE_NVME_WRITE, 1000000000);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    const struct executor_interval *slow = executor_intervals(executor, LANE_NVME_READ, &slow_count);
    const struct executor_interval *fast = executor_intervals(executor, LANE_NVME_WRITE, &fast_count);
    cr_assert(slow_count == 1 && fast_count == 1);
    cr_expect_geq(slow->end_ns - slow->begin_ns, 500000000);
    cr_expect_lt(fast->end_ns - fast->begin_ns, 500000000000);
    executor_close(executor);
}

Test(executor_record, concurrent_intervals_are_in_order_with_names_and_bytes)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    enum { COUNT = 700 };
    for (size_t s = 0; s < sizeof SCHEDULES / sizeof *SCHEDULES; s++) {
        struct executor *executor = open_in(SCHEDULES[s], NULL);
        size_t count;
        uint64_t begin_ns = clock_now_ns(), last_ns[2] = {begin_ns, begin_ns};
        for (size_t i = 0; i < COUNT; i++)
            record(executor, names[i % 5], i % 2 ? LANE_D2H : LANE_CPU, i);
        cr_assert_eq(executor_wait(executor), ERR_NONE);
        uint64_t end_ns = clock_now_ns();
        for (size_t i = 0; i < COUNT; i++) {
            const struct executor_interval *lane = executor_intervals(executor, i % 2 ? LANE_D2H : LANE_CPU, &count);
            const struct executor_interval *at = &lane[i / 2];
            cr_assert_eq(count, COUNT / 2);
            cr_assert_str_eq(at->name, names[i % 5]);
            cr_assert_eq(at->bytes, i);
            cr_assert_leq(last_ns[i % 2], at->begin_ns);
            cr_assert_leq(at->begin_ns, at->end_ns);
            cr_assert_leq(at->end_ns, end_ns);
            last_ns[i % 2] = at->end_ns;
        }
        executor_intervals(executor, LANE_H2D, &count);
        cr_expect_eq(count, 0);
        executor_close(executor);
    }
}

Test(executor_record, operations_are_not_kept_without_recording)
{
    struct executor *executor = open_in(SCHEDULES[1], NULL);
    size_t count;
    record(executor, "kept", LANE_CPU, 1);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    executor_record(executor, false);
    record(executor, "not kept", LANE_CPU, 2);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    executor_record(executor, true);
    record(executor, "kept again", LANE_CPU, 3);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    const struct executor_interval *intervals = executor_intervals(executor, LANE_CPU, &count);
    cr_assert_eq(count, 2);
    cr_expect_str_eq(intervals[0].name, "kept");
    cr_expect_str_eq(intervals[1].name, "kept again");
    executor_close(executor);
}
