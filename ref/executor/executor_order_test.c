// SPDX-License-Identifier: Apache-2.0
// The order that spans require, found with fewer comparisons than with every pending operation.
#include "ref/executor/executor_internal.h"
#include "ref/executor/executor_test.h"

enum { PLACES = 24 };
static char places[PLACES];

// An operation as the test knows it.
struct issued {
    enum lane lane;
    bool meets, complete;
    size_t span_count;
    struct executor_span spans[2];
};

static bool touch(const struct issued *a, const struct issued *b)
{
    for (size_t i = 0; i < a->span_count; i++)
        for (size_t j = 0; j < b->span_count; j++) {
            const char *x = a->spans[i].address, *y = b->spans[j].address;
            if (x < y + b->spans[j].bytes && y < x + a->spans[i].bytes &&
                ((a->spans[i].access | b->spans[j].access) & EXECUTOR_WRITE))
                return true;
        }
    return false;
}

// The definition: by lane the number of the newest pending operation that must be first; 0: none.
static void expected_after(const struct issued all[], size_t count, const struct issued *next, bool chaotic,
                           uint64_t after[LANE_COUNT])
{
    uint64_t numbers[LANE_COUNT] = {0};
    for (int lane = 0; lane < LANE_COUNT; lane++)
        after[lane] = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = ++numbers[all[i].lane];
        bool meet = chaotic && all[i].meets && next->meets;
        if (!all[i].complete && all[i].lane != next->lane && (meet || touch(&all[i], next)))
            after[all[i].lane] = number;
    }
}

// Mostly the operation before it on its lane once more, or its neighbour, as pieces are.
static struct issued draw(const struct issued *before, unsigned *seed)
{
    struct issued out = {.lane = (enum lane)(rand_r(seed) % LANE_COUNT)};
    int kind = rand_r(seed) % 4;
    if (before && kind > 0) {
        out = *before;
        out.complete = false;
        for (size_t i = 0; i < out.span_count && kind == 1; i++) {
            size_t at = (size_t)((const char *)out.spans[i].address - places) + out.spans[i].bytes;
            if (at + out.spans[i].bytes <= PLACES)
                out.spans[i].address = places + at;
        }
        return out;
    }
    out.meets = out.lane == LANE_COLLECTIVE || rand_r(seed) % 8 == 0;
    out.span_count = (size_t)(rand_r(seed) % 3);
    for (size_t i = 0; i < out.span_count; i++) {
        size_t bytes = 1 + (size_t)(rand_r(seed) % 3), at = (size_t)rand_r(seed) % (PLACES - bytes);
        out.spans[i] = (struct executor_span){places + at, bytes, (enum executor_access)(1 + rand_r(seed) % 3)};
    }
    return out;
}

static struct operation *enqueue(struct executor *executor, const struct issued *next)
{
    struct operation *operation = executor_copy(executor, &(struct executor_operation){.name = "drawn",
                                                                                       .lane = next->lane,
                                                                                       .run = nothing,
                                                                                       .spans = next->spans,
                                                                                       .span_count = next->span_count,
                                                                                       .meets = next->meets});
    cr_assert_not_null(operation);
    executor_enqueue(executor, operation);
    return operation;
}

static void complete_one(struct executor *executor, struct issued all[], size_t count, enum lane lane)
{
    if (!executor_ready(executor, lane))
        return;
    executor_complete(executor, lane);
    for (size_t i = 0; i < count; i++)
        if (all[i].lane == lane && !all[i].complete) {
            all[i].complete = true;
            return;
        }
}

static void complete_all(struct executor *executor, struct issued all[], size_t count)
{
    while (executor->pending_count > 0)
        for (int lane = 0; lane < LANE_COUNT; lane++)
            complete_one(executor, all, count, (enum lane)lane);
}

static void check_waits(const struct executor *executor, const struct issued all[], size_t count, unsigned *seed)
{
    struct issued spans = draw(NULL, seed);
    uint64_t expected[LANE_COUNT], found[LANE_COUNT];
    spans.lane = LANE_COUNT;
    spans.meets = false;
    expected_after(all, count, &spans, false, expected);
    executor_find_after(executor, spans.spans, spans.span_count, found);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        uint64_t completed = executor->lanes[lane].completed_count;
        cr_assert_eq(found[lane], expected[lane] > 0 ? expected[lane] : completed);
    }
}

static void compare_with_definition(struct executor_schedule schedule, unsigned seed)
{
    enum { OPERATIONS = 400 };
    struct executor *executor = open_executor(schedule, 0, NULL);
    struct issued all[OPERATIONS];
    for (size_t count = 0; count < OPERATIONS; count++) {
        uint64_t expected[LANE_COUNT];
        all[count] = draw(count > 0 ? &all[count - 1 - (size_t)rand_r(&seed) % (count < 3 ? count : 3)] : NULL, &seed);
        expected_after(all, count, &all[count], schedule.mode == EXECUTOR_CHAOS, expected);
        const struct operation *operation = enqueue(executor, &all[count]);
        for (int lane = 0; lane < LANE_COUNT; lane++)
            cr_assert_eq(operation->after[lane], expected[lane], "operation %zu, lane %d: %lu, expected %lu", count,
                         lane, (unsigned long)operation->after[lane], (unsigned long)expected[lane]);
        check_waits(executor, all, count + 1, &seed);
        for (int i = rand_r(&seed) % 4; i > 0; i--)
            complete_one(executor, all, count + 1, (enum lane)(rand_r(&seed) % LANE_COUNT));
    }
    complete_all(executor, all, OPERATIONS);
    executor_close(executor);
}

Test(executor_order, dependencies_are_those_of_a_comparison_with_every_pending_operation)
{
    for (unsigned seed = 1; seed <= 200; seed++) {
        compare_with_definition(OVERLAP, seed);
        compare_with_definition(chaos(seed), seed);
    }
}

// Pieces of a collective, all pending, with operations of other lanes among them.
static uint64_t comparisons(size_t pieces, bool cut)
{
    struct executor *executor = open_executor(OVERLAP, 0, NULL);
    static char full[1 << 16], other[8], shard[1 << 16];
    for (size_t i = 0; i < pieces; i++) {
        const struct issued piece = {.lane = LANE_COLLECTIVE,
                                     .span_count = 2,
                                     .spans = {{cut ? full + i : full, cut ? 1 : sizeof full, EXECUTOR_WRITE},
                                               {cut ? shard + i : shard, cut ? 1 : sizeof shard, EXECUTOR_READ}}};
        const struct issued step = {
            .lane = LANE_CPU, .span_count = 1, .spans = {{other, sizeof other, EXECUTOR_READ_WRITE}}};
        enqueue(executor, &piece);
        if (i % 100 == 0)
            enqueue(executor, &step);
    }
    uint64_t compared = executor->compared_count;
    complete_all(executor, NULL, 0);
    executor_close(executor);
    return compared;
}

Test(executor_order, pieces_that_wait_cost_what_one_operation_does)
{
    cr_assert_leq(comparisons(60000, false), 3 * 60000);
    cr_assert_leq(comparisons(60000, true), 3 * 60000);
}
