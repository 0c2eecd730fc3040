// SPDX-License-Identifier: Apache-2.0
// The simulated clock: lanes are first in, first out, dependencies follow from the spans, and the critical path has no
// gap.
#include "ref/executor/executor_dry.h"

#include "base/err.h"
#include "ref/executor/executor_internal.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

enum { SPAN_MAX = 3, OPERATION_MAX = 400 };

static double declared_seconds(const void *context, const struct executor_operation *operation)
{
    (void)context;
    return (double)operation->bytes * 1e-9;
}

static struct executor *open_dry(void)
{
    struct executor *executor;
    cr_assert_eq(executor_open((struct executor_schedule){EXECUTOR_DRY, 0}, 0, NULL, NULL, NULL, &executor), ERR_NONE);
    executor_dry_time(executor, declared_seconds, NULL);
    return executor;
}

static void issue(struct executor *executor, enum lane lane, size_t ns, size_t from, size_t length,
                  enum executor_access access)
{
    const struct executor_span span = {(const void *)(uintptr_t)(0x1000 + from), length, access};
    cr_assert_eq(executor_issue(executor,
                                &(struct executor_operation){
                                    .name = "it", .lane = lane, .bytes = ns, .spans = &span, .span_count = 1}),
                 ERR_NONE);
}

static const struct executor_event *event(const struct executor *executor, size_t i)
{
    size_t count;
    const struct executor_event *events = executor_dry_events(executor, &count);
    cr_assert_lt(i, count);
    return &events[i];
}

Test(executor_dry, a_reader_waits_for_the_writer_and_the_next_writer_for_the_reader)
{
    struct executor *executor = open_dry();
    issue(executor, LANE_H2D, 10, 0, 100, EXECUTOR_WRITE);
    issue(executor, LANE_COMPUTE, 5, 50, 10, EXECUTOR_READ);     // after the copy
    issue(executor, LANE_COLLECTIVE, 3, 99, 10, EXECUTOR_READ);  // at the same time as the other reader
    issue(executor, LANE_H2D, 7, 100, 9, EXECUTOR_WRITE);        // overlaps both readers' bytes by one
    issue(executor, LANE_D2H, 1, 55, 1, EXECUTOR_READ_WRITE);    // after the first reader
    const uint64_t begins[] = {0, 10, 10, 13, 15};
    for (size_t i = 0; i < 5; i++)
        cr_expect_eq(event(executor, i)->begin_ns, begins[i], "%zu: %zu", i, (size_t)event(executor, i)->begin_ns);
    cr_expect_eq(executor_dry_now(executor), 0);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    cr_expect_eq(executor_dry_now(executor), 20);
    issue(executor, LANE_CPU, 2, 5000, 1, EXECUTOR_READ);
    cr_expect_eq(event(executor, 5)->begin_ns, 20);
    cr_expect_eq(event(executor, 5)->after, 3);
    executor_close(executor);
}

// The definition: after every earlier operation whose turn is on the same lane, and every earlier one that conflicts.
static enum lane turn_of(const struct executor_operation *operation)
{
    return operation->is_reduced ? LANE_COLLECTIVE : operation->lane;
}

Test(executor_dry, random_operations_have_the_times_of_the_definition)
{
    static struct {
        struct executor_operation operation;
        struct executor_span spans[SPAN_MAX];
        uint64_t end_ns;
    } all[OPERATION_MAX];
    uint64_t at = 0;
    struct executor *executor = open_dry();
    executor_dry_reduces_beside(executor);
    for (int n = 0; n < OPERATION_MAX; n++) {
        uint64_t begin_ns = 0;
        size_t span_count = random_below(random_at(9, at++), SPAN_MAX + 1);
        for (size_t i = 0; i < span_count; i++) {
            all[n].spans[i].address = (void *)(uintptr_t)(64 + random_below(random_at(9, at++), 300));
            all[n].spans[i].bytes = random_below(random_at(9, at++), 60);
            all[n].spans[i].access = (enum executor_access)(1 + random_below(random_at(9, at++), 3));
        }
        enum lane lane = (enum lane)random_below(random_at(9, at++), LANE_COUNT);
        size_t bytes = random_below(random_at(9, at++), 50);
        all[n].operation = (struct executor_operation){
            .name = "it", .lane = lane, .bytes = bytes, .spans = all[n].spans, .span_count = span_count};
        all[n].operation.is_reduced = random_below(random_at(9, at++), 4) == 0;
        for (int before = 0; before < n; before++) {
            bool waits = turn_of(&all[before].operation) == turn_of(&all[n].operation);
            for (size_t i = 0; i < span_count; i++)
                for (size_t k = 0; k < all[before].operation.span_count; k++) {
                    const struct executor_span *a = &all[n].spans[i], *b = &all[before].spans[k];
                    uintptr_t a_begin = (uintptr_t)a->address, b_begin = (uintptr_t)b->address;
                    waits |= a->bytes > 0 && b->bytes > 0 && a_begin < b_begin + b->bytes &&
                             b_begin < a_begin + a->bytes && ((a->access | b->access) & EXECUTOR_WRITE);
                }
            if (waits && all[before].end_ns > begin_ns)
                begin_ns = all[before].end_ns;
        }
        all[n].end_ns = begin_ns + all[n].operation.bytes;
        cr_assert_eq(executor_issue(executor, &all[n].operation), ERR_NONE);
        cr_assert_eq(event(executor, (size_t)n)->begin_ns, begin_ns, "operation %d", n);
        cr_assert_eq(event(executor, (size_t)n)->end_ns, all[n].end_ns, "operation %d", n);
    }
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    uint64_t reached = executor_dry_now(executor);
    for (long i = executor_dry_last(executor); i != EXECUTOR_NO_EVENT; i = event(executor, (size_t)i)->after) {
        cr_assert_eq(event(executor, (size_t)i)->end_ns, reached);
        reached = event(executor, (size_t)i)->begin_ns;
    }
    cr_expect_eq(reached, 0);
    executor_close(executor);
}
