// SPDX-License-Identifier: Apache-2.0
// The chaos mode detects a thread that touches what its pending operations own.
#include "ref/executor/executor_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Two allocations of two pages, and numbers that the ledger does not count. An operation reads or writes a range of
// the first allocation.
struct scene {
    struct tier *tier;
    struct executor *executor;
    volatile uint8_t *memory, *other, *numbers;
};

static long page_bytes(void)
{
    return sysconf(_SC_PAGESIZE);
}

static struct scene open_scene(void)
{
    struct scene s;
    void *memory, *other, *numbers;
    size_t bytes = 2 * (size_t)page_bytes();
    cr_assert_eq(tier_open(NULL, &(struct tier_setting){0}, &s.tier), ERR_NONE);
    cr_assert_eq(tier_allocate(s.tier, TIER_HOST, KIND_STAGING, "memory", bytes, 0, &memory), ERR_NONE);
    cr_assert_eq(tier_allocate(s.tier, TIER_HOST, KIND_STAGING, "other", bytes, 0, &other), ERR_NONE);
    cr_assert_eq(tier_share(s.tier, "numbers", 64, &numbers), ERR_NONE);
    s.memory = memory;
    s.other = other;
    s.numbers = numbers;
    s.executor = open_executor(chaos(3), 1, s.tier);
    return s;
}

static void close_scene(struct scene *s)
{
    executor_close(s->executor);
    tier_close(s->tier);
}

static void scan(const struct scene *s, const volatile uint8_t *address, size_t bytes, enum executor_access access)
{
    const struct executor_span span = {(const void *)address, bytes, access};
    cr_assert_eq(issue(s->executor, "scan", LANE_CPU, nothing, NULL, 0, &span, 1), ERR_NONE);
}

static void wait_for(const struct scene *s, const volatile uint8_t *address, size_t bytes, enum executor_access access)
{
    const struct executor_span span = {(const void *)address, bytes, access};
    cr_assert_eq(executor_wait_for(s->executor, &span), ERR_NONE);
}

// The issuing thread does it in a child process, which must end with the message, or with none.
typedef void deed(struct scene *s);

static void run_deed(void *argument)
{
    struct scene s = open_scene();
    (*(deed *const *)argument)(&s);
    close_scene(&s);
}

static void expect_end(deed *body, const char *name, int offset)
{
    char expected[200];
    snprintf(expected, sizeof expected,
             "zerogauge: rank 1: the issuing thread touches \"%s\" at offset %d while operation \"scan\" on lane cpu, "
             "which accesses it, is pending: it must wait, or an operation must do this\n",
             name, offset);
    struct child_end end = child_run(run_deed, &body);
    cr_expect_eq(end.status, 1, "status %d: %s", end.status, end.output);
    cr_expect_str_eq(end.output, expected);
}

static void expect_silence(deed *body)
{
    struct child_end end = child_run(run_deed, &body);
    cr_expect_eq(end.status, 0, "status %d: %s", end.status, end.output);
    cr_expect_str_eq(end.output, "");
}

static void write_what_is_read(struct scene *s)
{
    scan(s, s->memory + 8, 4, EXECUTOR_READ);
    s->memory[9] = 1;
}

static void read_what_is_written(struct scene *s)
{
    scan(s, s->memory + 8, 4, EXECUTOR_WRITE);
    s->numbers[0] = s->memory[8];
}

static void write_numbers_that_are_added_to(struct scene *s)
{
    scan(s, s->numbers + 16, 16, EXECUTOR_READ_WRITE);
    memset((void *)(uintptr_t)(s->numbers + 16), 0, 16);
}

// A write follows a read that was right.
static void write_after_reading(struct scene *s)
{
    scan(s, s->memory, 4, EXECUTOR_READ);
    s->numbers[0] = s->memory[0];
    s->memory[0] = 1;
}

static void touch_again_after_the_next_operation(struct scene *s)
{
    wait_for(s, s->memory, 4, EXECUTOR_WRITE);
    s->memory[0] = 1;
    scan(s, s->memory, 4, EXECUTOR_READ);
    s->memory[0] = 2;
}

// The operation that the wait does not include goes on.
static void touch_another_after_a_wait(struct scene *s)
{
    scan(s, s->memory, 4, EXECUTOR_WRITE);
    scan(s, s->other, 4, EXECUTOR_WRITE);
    wait_for(s, s->other, 4, EXECUTOR_READ);
    s->numbers[0] = s->memory[1];
}

Test(executor_issuer, what_pending_operations_own_is_not_touched)
{
    expect_end(write_what_is_read, "memory", 9);
    expect_end(read_what_is_written, "memory", 8);
    expect_end(write_numbers_that_are_added_to, "numbers", 16);
    expect_end(write_after_reading, "memory", 0);
    expect_end(touch_again_after_the_next_operation, "memory", 0);
}

Test(executor_issuer, a_wait_for_one_operation_gives_nothing_of_another)
{
    struct scene s = open_scene();
    scan(&s, s.memory, 4, EXECUTOR_WRITE);
    scan(&s, s.other, 4, EXECUTOR_WRITE);
    wait_for(&s, s.other, 4, EXECUTOR_READ);
    s.other[0] = 5;
    cr_assert_eq(s.other[0], 5);
    close_scene(&s);
    // Both are on one lane, so that the first is complete, too: no message.
    expect_silence(touch_another_after_a_wait);
}

static void read_what_is_read(struct scene *s)
{
    scan(s, s->memory, 4, EXECUTOR_READ);
    s->numbers[0] = s->memory[0];
    s->numbers[1] = s->memory[page_bytes()];
}

static void write_another_page(struct scene *s)
{
    scan(s, s->memory, 4, EXECUTOR_READ_WRITE);
    s->memory[page_bytes()] = 1;
    s->other[0] = 2;
    s->numbers[0] = 3;
}

static void touch_what_was_awaited(struct scene *s)
{
    scan(s, s->memory, 4, EXECUTOR_WRITE);
    wait_for(s, s->memory, 4, EXECUTOR_WRITE);
    scan(s, s->memory + 4, 4, EXECUTOR_WRITE);
    s->memory[1] = 7;
    cr_assert_eq(s->memory[1], 7);
}

static void touch_after_a_whole_wait(struct scene *s)
{
    scan(s, s->memory, 4, EXECUTOR_WRITE);
    cr_assert_eq(executor_wait(s->executor), ERR_NONE);
    s->memory[1] = 7;
}

Test(executor_issuer, what_no_operation_owns_is_free)
{
    expect_silence(read_what_is_read);
    expect_silence(write_another_page);
    expect_silence(touch_what_was_awaited);
    expect_silence(touch_after_a_whole_wait);
}
