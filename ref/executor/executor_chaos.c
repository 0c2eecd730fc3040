// SPDX-License-Identifier: Apache-2.0
// The chaos mode keeps operations until the wait and then runs them on the waiting thread: a seeded generator chooses
// among the ready operations and adds random delays. Each rank draws its own order.
#include "ref/executor/executor_guard.h"
#include "ref/executor/executor_versions.h"

#include "base/clock.h"
#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

// Issuing this many operations without a wait runs them, so that memory stays bounded.
enum { PENDING_MAX = 4096 };

struct chaos {
    struct executor_guard *guard;  // null where there is no tier to guard
    struct executor_versions *versions;
    uint64_t random_state;
    enum lane favoured;
    struct executor_span awaited;  // by the last wait
};

// splitmix64
static uint64_t draw(struct chaos *chaos)
{
    uint64_t z = chaos->random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t draw_below(struct chaos *chaos, uint64_t limit)
{
    return draw(chaos) % limit;
}

// The issuing thread may touch the span that it waited for, until an operation owns it again, and of others whole pages
// that no operation owns any byte of.
static const struct operation *find_owner(void *context, const void *address, const struct tier_range *page)
{
    const struct executor *executor = context;
    const struct executor_span *awaited = &((const struct chaos *)executor->state)->awaited;
    enum executor_access access = page->writable ? EXECUTOR_WRITE : EXECUTOR_READ;
    struct executor_span span = {page->address, page->bytes, access};
    if ((uintptr_t)address - (uintptr_t)awaited->address < awaited->bytes)
        span = (struct executor_span){address, 1, access};
    return executor_find_conflict(executor, &span);
}

static int chaos_open(struct executor *executor, uint64_t seed)
{
    struct chaos *chaos = calloc(1, sizeof *chaos);
    if (!chaos)
        return err_set(ERR_MEMORY, "executor: no memory for its bookkeeping");
    int code = executor_versions_open(executor->rank, &chaos->versions);
    if (code == ERR_NONE && executor->tier)
        code = executor_guard_open(executor->tier, executor->rank, find_owner, executor, &chaos->guard);
    if (code != ERR_NONE) {
        executor_versions_close(chaos->versions);
        free(chaos);
        return code;
    }
    // Two draws, so that neighbouring seeds and ranks give unrelated sequences.
    chaos->random_state = seed;
    chaos->random_state = draw(chaos) + (uint64_t)executor->rank;
    chaos->random_state = draw(chaos);
    executor->state = chaos;
    return ERR_NONE;
}

// Favours one lane for a while, so that lanes run far ahead of each other. Some lane is always ready: the pending
// operation that was issued first heads its lane and depends on no pending operation.
static enum lane choose(const struct executor *executor, struct chaos *chaos)
{
    enum lane ready[LANE_COUNT];
    uint64_t ready_count = 0;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (executor_ready(executor, (enum lane)lane))
            ready[ready_count++] = (enum lane)lane;
    assert(ready_count > 0);
    enum lane any = ready[draw_below(chaos, ready_count)];
    if (draw_below(chaos, 16) == 0)
        chaos->favoured = any;
    return executor_ready(executor, chaos->favoured) && draw_below(chaos, 4) != 0 ? chaos->favoured : any;
}

// Mostly 0, often up to 0.2 ms, seldom up to 2 ms: enough for ranks to drift a few operations apart.
static void delay(struct chaos *chaos)
{
    uint64_t kind = draw_below(chaos, 64), limit_us = kind == 0 ? 2000 : kind < 16 ? 200 : 0;
    if (limit_us == 0)
        return;
    struct timespec duration = {.tv_nsec = (long)draw_below(chaos, limit_us * 1000)};
    nanosleep(&duration, NULL);
}

// While operations are pending, the issuing thread may touch only what none of them has.
static int watch_issuer(struct executor *executor)
{
    struct executor_guard *guard = ((struct chaos *)executor->state)->guard;
    if (!guard)
        return ERR_NONE;
    return executor->pending_count > 0 ? executor_guard_watch(guard) : executor_guard_lift(guard);
}

static void chaos_wait(struct executor *executor, const struct executor_span *span)
{
    struct chaos *chaos = executor->state;
    uint64_t after[LANE_COUNT];
    executor_find_after(executor, span, 1, after);
    chaos->awaited = span ? *span : (struct executor_span){0};
    while (!executor_reached(executor, after)) {
        enum lane lane = choose(executor, chaos);
        if (executor->code == ERR_NONE) {
            delay(chaos);
            const struct operation *operation = executor_ready(executor, lane);
            uint64_t begin_ns = clock_now_ns();
            int code = executor_versions_meet(chaos->versions, operation);
            if (code == ERR_NONE)
                code = chaos->guard ? executor_guard_run(chaos->guard, operation) : executor_run(operation);
            executor_ended(executor, operation, begin_ns);
            if (code != ERR_NONE)
                executor_fail(executor, code);
        }
        executor_complete(executor, lane);
    }
    int code = watch_issuer(executor);
    if (code != ERR_NONE)
        executor_fail(executor, code);
}

static int chaos_issue(struct executor *executor, struct operation *operation)
{
    TRY(executor_versions_expect(((struct chaos *)executor->state)->versions, operation));
    executor_enqueue(executor, operation);
    if (executor->pending_count >= PENDING_MAX)
        return executor_wait(executor);
    return watch_issuer(executor);
}

static void chaos_close(struct executor *executor)
{
    struct chaos *chaos = executor->state;
    executor_guard_close(chaos->guard);
    executor_versions_close(chaos->versions);
    free(chaos);
}

const struct executor_mode_operations executor_mode_chaos = {chaos_open, chaos_issue, chaos_wait, chaos_close};
