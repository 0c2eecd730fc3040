// SPDX-License-Identifier: Apache-2.0
#include "ref/stage/order.h"

#include "base/err.h"

#include <criterion/criterion.h>

// A step that asks for those, up to -1.
static void step(struct order *order, const int *asked)
{
    for (; *asked >= 0; asked++)
        cr_assert_eq(order_ask(order, *asked), ERR_NONE);
    order_restart(order);
}

static void expect(const struct order *order, const int *bundles)
{
    size_t place = 0;
    for (; bundles[place] >= 0; place++)
        cr_expect_eq(order_at(order, place), bundles[place], "place %zu", place);
    cr_expect_eq(order_at(order, place), -1);
    cr_expect_eq(order_at(order, SIZE_MAX), -1);
}

static const int FIRST[] = {4, 0, 4, 2, 7, -1};

Test(order, nothing_is_known_before_a_whole_step_was_recorded)
{
    struct order order = {0};
    expect(&order, (const int[]){-1});
    for (int i = 0; i < 3; i++)
        cr_assert_eq(order_ask(&order, FIRST[i]), ERR_NONE);
    expect(&order, (const int[]){-1});
    order_close(&order);
}

Test(order, the_next_step_is_expected_to_ask_for_the_same)
{
    struct order order = {0};
    step(&order, FIRST);
    expect(&order, FIRST);
    for (int i = 0; i < 3; i++)
        step(&order, FIRST);
    expect(&order, FIRST);
    cr_expect_eq(order.changes, 0);
    order_close(&order);
}

Test(order, a_step_that_asks_for_another_is_recorded_anew_from_there)
{
    static const int SECOND[] = {4, 0, 5, 2, 7, -1};
    struct order order = {0};
    step(&order, FIRST);
    cr_assert_eq(order_ask(&order, 4), ERR_NONE);
    cr_assert_eq(order_ask(&order, 0), ERR_NONE);
    expect(&order, FIRST);
    cr_assert_eq(order_ask(&order, 5), ERR_NONE);
    expect(&order, (const int[]){-1});
    cr_expect_eq(order.changes, 1);
    cr_assert_eq(order_ask(&order, 2), ERR_NONE);
    cr_assert_eq(order_ask(&order, 7), ERR_NONE);
    cr_expect_eq(order.changes, 1, "one step leaves the order once");
    order_restart(&order);
    expect(&order, SECOND);
    step(&order, SECOND);
    cr_expect_eq(order.changes, 1);
    order_close(&order);
}

Test(order, shorter_and_longer_steps_are_changes_too)
{
    static const int SHORT[] = {4, 0, -1}, LONG[] = {4, 0, 1, -1}, NONE[] = {-1};
    struct order order = {0};
    step(&order, FIRST);
    step(&order, SHORT);
    expect(&order, SHORT);
    cr_expect_eq(order.changes, 1);
    step(&order, LONG);
    expect(&order, LONG);
    cr_expect_eq(order.changes, 2);
    step(&order, LONG);
    cr_expect_eq(order.changes, 2);
    step(&order, NONE);
    expect(&order, NONE);
    cr_expect_eq(order.changes, 3);
    order_close(&order);
}

Test(order, it_holds_as_many_as_are_asked_for)
{
    enum { COUNT = 1000 };
    struct order order = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            cr_assert_eq(order_ask(&order, i * 7 % 13), ERR_NONE);
        order_restart(&order);
    }
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(order_at(&order, i), (int)i * 7 % 13);
    cr_expect_eq(order_at(&order, COUNT), -1);
    cr_expect_eq(order.changes, 0);
    order_close(&order);
    cr_expect_eq(order_at(&order, 0), -1);
}
