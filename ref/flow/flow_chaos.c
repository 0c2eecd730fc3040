// SPDX-License-Identifier: Apache-2.0
// The chaos mode: operations are kept until the wait, and then run on the waiting thread in an order that a seeded
// generator chooses among those that may start, with random delays in between. Ranks draw different orders.
#include "ref/flow/flow_guard.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

// Issuing more than this without a wait runs what there is, so that memory stays bounded.
enum { PENDING_MAX = 4096 };

struct chaos {
    struct flow_guard *guard; // null where there is no tier to guard
    uint64_t random_state;
    enum lane favoured;
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

static int chaos_open(struct flow *flow, uint64_t seed)
{
    struct chaos *chaos = calloc(1, sizeof *chaos);
    if (!chaos)
        return err_set(ERR_MEMORY, "flow: no memory for its bookkeeping");
    int code = flow->tier ? flow_guard_open(flow->tier, flow->rank, &chaos->guard) : ERR_NONE;
    if (code != ERR_NONE) {
        free(chaos);
        return code;
    }
    // Two draws deep, so that near seeds and near ranks have nothing in common.
    chaos->random_state = seed;
    chaos->random_state = draw(chaos) + (uint64_t)flow->rank;
    chaos->random_state = draw(chaos);
    flow->state = chaos;
    return ERR_NONE;
}

// One lane is favoured for a while, so that lanes run far ahead of each other and not just side by side. There always
// is a choice: of all that is pending, what was issued first heads its lane and depends on nothing that is pending.
static enum lane choose(const struct flow *flow, struct chaos *chaos)
{
    enum lane ready[LANE_COUNT];
    uint64_t ready_count = 0;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (flow_ready(flow, (enum lane)lane))
            ready[ready_count++] = (enum lane)lane;
    assert(ready_count > 0);
    enum lane any = ready[draw_below(chaos, ready_count)];
    if (draw_below(chaos, 16) == 0)
        chaos->favoured = any;
    return flow_ready(flow, chaos->favoured) && draw_below(chaos, 4) != 0 ? chaos->favoured : any;
}

// Mostly none, often up to 0.2 ms, seldom up to 2 ms: enough for ranks to drift a few operations apart.
static void delay(struct chaos *chaos)
{
    uint64_t kind = draw_below(chaos, 64), limit_us = kind == 0 ? 2000 : kind < 16 ? 200 : 0;
    if (limit_us == 0)
        return;
    struct timespec duration = {.tv_nsec = (long)draw_below(chaos, limit_us * 1000)};
    nanosleep(&duration, NULL);
}

static void chaos_wait(struct flow *flow)
{
    struct chaos *chaos = flow->state;
    while (flow->pending_count > 0) {
        enum lane lane = choose(flow, chaos);
        if (flow->code == ERR_NONE) {
            delay(chaos);
            const struct operation *operation = flow_ready(flow, lane);
            uint64_t begin_ns = flow_now();
            int code = chaos->guard ? flow_guard_run(chaos->guard, operation) : flow_run(operation);
            flow_ended(flow, operation, begin_ns);
            if (code != ERR_NONE)
                flow_fail(flow, code);
        }
        flow_complete(flow, lane);
    }
    int code = chaos->guard ? flow_guard_lift(chaos->guard) : ERR_NONE;
    if (code != ERR_NONE)
        flow_fail(flow, code);
}

static int chaos_issue(struct flow *flow, struct operation *operation)
{
    flow_enqueue(flow, operation);
    if (flow->pending_count >= PENDING_MAX)
        return flow_wait(flow);
    return ERR_NONE;
}

static void chaos_close(struct flow *flow)
{
    struct chaos *chaos = flow->state;
    flow_guard_close(chaos->guard);
    free(chaos);
}

const struct flow_way flow_way_chaos = {chaos_open, chaos_issue, chaos_wait, chaos_close};
