// SPDX-License-Identifier: Apache-2.0
// Runs the loads of several lanes together.
#include "bench/step/lane_load.h"

#include "base/err.h"

#include <assert.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

enum { START_NS = 1000000 };  // time for the threads to wake up

// Every part is warm before the first one works, and all begin at the same time. All have ended before the first is
// checked, and if none has failed they are checked at the same time, too.
struct lane_start {
    enum lane_way way;
    double seconds;
    sem_t warm, go, ended, check;
    uint64_t begin_ns;  // set before `go`
    bool checks;        // set before `check`
};

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue;
}

static void *part_run(void *context)
{
    struct lane_part *part = context;
    struct lane_start *start = part->start;
    part->code = lane_load_warm(part->load);
    sem_post(&start->warm);
    wait_for(&start->go);
    const struct timespec begin = {(time_t)(start->begin_ns / 1000000000), (long)(start->begin_ns % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL);
    if (part->code == ERR_NONE)
        part->code = lane_load_run(part->load, start->way, start->seconds, &part->done);
    sem_post(&start->ended);
    wait_for(&start->check);
    if (start->checks)
        part->code = lane_load_check(part->load);
    snprintf(part->message, sizeof part->message, "%s", err_message());
    return NULL;
}

static int start_all(struct lane_part parts[], int count, struct lane_start *start)
{
    int started = 0;
    for (; started < count; started++) {
        parts[started].start = start;
        if (pthread_create(&parts[started].thread, NULL, part_run, &parts[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++)
        wait_for(&start->warm);
    start->begin_ns = clock_now_ns() + START_NS;
    for (int i = 0; i < started; i++)
        sem_post(&start->go);
    for (int i = 0; i < started; i++)
        wait_for(&start->ended);
    start->checks = true;
    for (int i = 0; i < started; i++)
        start->checks &= parts[i].code == ERR_NONE;
    for (int i = 0; i < started; i++)
        sem_post(&start->check);
    for (int i = 0; i < started; i++)
        pthread_join(parts[i].thread, NULL);
    return started == count ? ERR_NONE : err_set(ERR_MEMORY, "cannot start a thread for a lane");
}

int lane_parts_run(struct lane_part parts[], int count, enum lane_way way, double seconds)
{
    assert(count > 0);
    struct lane_start start = {.way = way, .seconds = seconds};
    sem_t *const all[] = {&start.warm, &start.go, &start.ended, &start.check};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sem_init(all[i], 0, 0);
    int code = start_all(parts, count, &start);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sem_destroy(all[i]);
    TRY(code);
    for (int i = 0; i < count && code == ERR_NONE; i++)
        if (parts[i].code != ERR_NONE)
            code = err_set(parts[i].code, "%s: %s", parts[i].name, parts[i].message);
    return code;
}
