// SPDX-License-Identifier: Apache-2.0
// Overlaps of hand-written intervals.
#include "plan/claims/overlap.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <string.h>

static struct executor_event events[] = {
    {.name = "forward", .lane = LANE_COMPUTE, .begin_ns = 0, .end_ns = 10},
    {.name = "backward", .lane = LANE_COMPUTE, .begin_ns = 10, .end_ns = 30},
    {.name = "read", .lane = LANE_NVME_READ, .begin_ns = 25, .end_ns = 45},
    {.name = "read", .lane = LANE_NVME_READ, .begin_ns = 5, .end_ns = 12},
    {.name = "write", .lane = LANE_NVME_WRITE, .begin_ns = 8, .end_ns = 11},
    {.name = "write", .lane = LANE_NVME_WRITE, .begin_ns = 11, .end_ns = 13},
    {.name = "mark", .lane = LANE_CPU, .begin_ns = 7, .end_ns = 7},
};
static const struct plan plan = {.events = events, .event_count = sizeof events / sizeof events[0]};

static double overlap(const char *of, const char *beside)
{
    double out = -1;
    cr_assert_eq(overlap_of(&plan, (const char *const[]){of, beside}, 2, &out), ERR_NONE, "%s", err_message());
    return out;
}

Test(overlap, is_the_fraction_of_the_first_that_lies_within_the_second)
{
    cr_assert_eq(overlap("forward", "read"), 0.5);
    cr_assert_eq(overlap("read", "forward"), 5.0 / 27);
    cr_assert_eq(overlap("backward", "read"), 7.0 / 20);
    cr_assert_eq(overlap("compute", "nvme_read"), 12.0 / 30);
    cr_assert_eq(overlap("compute", "compute"), 1);
    cr_assert_eq(overlap("write", "read"), 4.0 / 5);
    cr_assert_eq(overlap("forward", "backward"), 0);
}

Test(overlap, of_several_is_where_all_run_at_once)
{
    double out = -1;
    cr_assert_eq(overlap_of(&plan, (const char *const[]){"write", "read", "backward"}, 3, &out), ERR_NONE);
    cr_assert_eq(out, 2.0 / 5);
}

Test(overlap, operations_that_take_no_time_are_refused)
{
    double out;
    cr_assert_eq(overlap_of(&plan, (const char *const[]){"mark", "forward"}, 2, &out), ERR_USAGE);
    cr_assert_str_eq(err_message(), "no operation or lane 'mark' takes time in this plan");
    cr_assert_eq(overlap_of(&plan, (const char *const[]){"forward", "Adam"}, 2, &out), ERR_USAGE);
    cr_assert_str_eq(err_message(), "no operation or lane 'Adam' takes time in this plan");
}
