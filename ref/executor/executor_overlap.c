// SPDX-License-Identifier: Apache-2.0
// The overlap mode: one thread per lane, created at the lane's first operation. The head of a lane starts as soon as
// the other lanes have completed its dependencies.
#include "ref/executor/executor_internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/processor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct overlap_lane {
    struct executor *executor;
    enum lane lane;
    bool started;
    pthread_t thread;
    pthread_cond_t ready;  // the lane's oldest operation may start, or the executor closes
};

struct overlap {
    pthread_mutex_t lock;  // guards the executor's lanes and all fields below
    pthread_cond_t reached;
    const uint64_t *awaited;  // by lane: completed operations that the owner waits for; null: it does not wait
    bool closing;
    struct overlap_lane lanes[LANE_COUNT];
};

static int overlap_open(struct executor *executor, uint64_t seed)
{
    (void)seed;
    struct overlap *overlap = calloc(1, sizeof *overlap);
    if (!overlap)
        return err_set(ERR_MEMORY, "executor: no memory for its bookkeeping");
    pthread_mutex_init(&overlap->lock, NULL);
    pthread_cond_init(&overlap->reached, NULL);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        overlap->lanes[lane] = (struct overlap_lane){.executor = executor, .lane = (enum lane)lane};
        pthread_cond_init(&overlap->lanes[lane].ready, NULL);
    }
    executor->state = overlap;
    return ERR_NONE;
}

// Wakes the lanes whose oldest operation may start. A lane that is not waiting misses the signal and needs none: it
// checks its queue before it waits.
static void wake_ready(struct executor *executor)
{
    struct overlap *overlap = executor->state;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (executor_ready(executor, (enum lane)lane))
            pthread_cond_signal(&overlap->lanes[lane].ready);
}

static void *run_lane(void *argument)
{
    struct overlap_lane *self = argument;
    struct executor *executor = self->executor;
    struct overlap *overlap = executor->state;
    // Where lanes are more than processors, one that moves data wakes up often and runs shortly, but would wait for the
    // end of a computing thread's slice each time, and with it the other ranks of a collective.
    if (self->lane != LANE_COMPUTE)
        processor_short_slices();
    prctl(PR_SET_TIMERSLACK, 1000);  // ns; lets an emulated lane sleep precisely
    int entered = tier_enter(executor->tier);
    if (entered != ERR_NONE)
        executor_fail(executor, entered);
    pthread_mutex_lock(&overlap->lock);
    for (;;) {
        struct operation *operation = executor_ready(executor, self->lane);
        if (!operation) {
            if (overlap->closing)
                break;
            pthread_cond_wait(&self->ready, &overlap->lock);
            continue;
        }
        pthread_mutex_unlock(&overlap->lock);
        if (executor->code == ERR_NONE) {
            uint64_t begin_ns = clock_now_ns();
            int code = executor_run(operation);
            executor_ended(executor, operation, begin_ns);
            if (code != ERR_NONE)
                executor_fail(executor, code);
        }
        pthread_mutex_lock(&overlap->lock);
        executor_complete(executor, self->lane);
        wake_ready(executor);
        if (overlap->awaited && executor_reached(executor, overlap->awaited))
            pthread_cond_signal(&overlap->reached);
    }
    pthread_mutex_unlock(&overlap->lock);
    return NULL;
}

static int overlap_issue(struct executor *executor, struct operation *operation)
{
    struct overlap *overlap = executor->state;
    struct overlap_lane *lane = &overlap->lanes[operation->lane];
    if (!lane->started) {
        int failure = pthread_create(&lane->thread, NULL, run_lane, lane);
        if (failure)
            return err_set(ERR_MEMORY, "executor: no thread for lane %s: %s", ledger_lane_name(operation->lane),
                           strerror(failure));
        lane->started = true;
    }
    pthread_mutex_lock(&overlap->lock);
    executor_enqueue(executor, operation);
    if (executor_ready(executor, operation->lane) == operation)
        pthread_cond_signal(&lane->ready);
    pthread_mutex_unlock(&overlap->lock);
    return ERR_NONE;
}

static void overlap_wait(struct executor *executor, const struct executor_span *span)
{
    struct overlap *overlap = executor->state;
    uint64_t after[LANE_COUNT];
    pthread_mutex_lock(&overlap->lock);
    executor_find_after(executor, span, 1, after);
    overlap->awaited = after;
    while (!executor_reached(executor, after))
        pthread_cond_wait(&overlap->reached, &overlap->lock);
    overlap->awaited = NULL;
    pthread_mutex_unlock(&overlap->lock);
}

static void overlap_close(struct executor *executor)
{
    struct overlap *overlap = executor->state;
    pthread_mutex_lock(&overlap->lock);
    overlap->closing = true;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        pthread_cond_signal(&overlap->lanes[lane].ready);
    pthread_mutex_unlock(&overlap->lock);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        if (overlap->lanes[lane].started)
            pthread_join(overlap->lanes[lane].thread, NULL);
        pthread_cond_destroy(&overlap->lanes[lane].ready);
    }
    pthread_cond_destroy(&overlap->reached);
    pthread_mutex_destroy(&overlap->lock);
    free(overlap);
}

const struct executor_mode_operations executor_mode_overlap = {overlap_open, overlap_issue, overlap_wait,
                                                               overlap_close};
