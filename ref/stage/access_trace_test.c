// SPDX-License-Identifier: Apache-2.0
#include "ref/stage/access_trace.h"

#include "base/err.h"

#include <criterion/criterion.h>

// A step that asks for those, up to -1.
static void step(struct access_trace *trace, const int *asked)
{
    for (; *asked >= 0; asked++)
        cr_assert_eq(access_trace_ask(trace, *asked), ERR_NONE);
    access_trace_restart(trace);
}

static void expect(const struct access_trace *trace, const int *buckets)
{
    size_t position = 0;
    for (; buckets[position] >= 0; position++)
        cr_expect_eq(access_trace_at(trace, position), buckets[position], "position %zu", position);
    cr_expect_eq(access_trace_at(trace, position), -1);
    cr_expect_eq(access_trace_at(trace, SIZE_MAX), -1);
}

static const int FIRST[] = {4, 0, 4, 2, 7, -1};

Test(access_trace, nothing_is_known_before_a_whole_step_was_recorded)
{
    struct access_trace trace = {0};
    expect(&trace, (const int[]){-1});
    for (int i = 0; i < 3; i++)
        cr_assert_eq(access_trace_ask(&trace, FIRST[i]), ERR_NONE);
    expect(&trace, (const int[]){-1});
    access_trace_close(&trace);
}

Test(access_trace, the_next_step_is_expected_to_ask_for_the_same)
{
    struct access_trace trace = {0};
    step(&trace, FIRST);
    expect(&trace, FIRST);
    for (int i = 0; i < 3; i++)
        step(&trace, FIRST);
    expect(&trace, FIRST);
    cr_expect_eq(trace.changes, 0);
    access_trace_close(&trace);
}

Test(access_trace, a_step_that_asks_for_another_is_recorded_anew_from_there)
{
    static const int SECOND[] = {4, 0, 5, 2, 7, -1};
    struct access_trace trace = {0};
    step(&trace, FIRST);
    cr_assert_eq(access_trace_ask(&trace, 4), ERR_NONE);
    cr_assert_eq(access_trace_ask(&trace, 0), ERR_NONE);
    expect(&trace, FIRST);
    cr_assert_eq(access_trace_ask(&trace, 5), ERR_NONE);
    expect(&trace, (const int[]){-1});
    cr_expect_eq(trace.changes, 1);
    cr_assert_eq(access_trace_ask(&trace, 2), ERR_NONE);
    cr_assert_eq(access_trace_ask(&trace, 7), ERR_NONE);
    cr_expect_eq(trace.changes, 1, "one step leaves the order once");
    access_trace_restart(&trace);
    expect(&trace, SECOND);
    step(&trace, SECOND);
    cr_expect_eq(trace.changes, 1);
    access_trace_close(&trace);
}

Test(access_trace, shorter_and_longer_steps_are_changes_too)
{
    static const int SHORT[] = {4, 0, -1}, LONG[] = {4, 0, 1, -1}, NONE[] = {-1};
    struct access_trace trace = {0};
    step(&trace, FIRST);
    step(&trace, SHORT);
    expect(&trace, SHORT);
    cr_expect_eq(trace.changes, 1);
    step(&trace, LONG);
    expect(&trace, LONG);
    cr_expect_eq(trace.changes, 2);
    step(&trace, LONG);
    cr_expect_eq(trace.changes, 2);
    step(&trace, NONE);
    expect(&trace, NONE);
    cr_expect_eq(trace.changes, 3);
    access_trace_close(&trace);
}

Test(access_trace, it_holds_as_many_as_are_asked_for)
{
    enum { COUNT = 1000 };
    struct access_trace trace = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            cr_assert_eq(access_trace_ask(&trace, i * 7 % 13), ERR_NONE);
        access_trace_restart(&trace);
    }
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(access_trace_at(&trace, i), (int)i * 7 % 13);
    cr_expect_eq(access_trace_at(&trace, COUNT), -1);
    cr_expect_eq(trace.changes, 0);
    access_trace_close(&trace);
    cr_expect_eq(access_trace_at(&trace, 0), -1);
}
