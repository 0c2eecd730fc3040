// SPDX-License-Identifier: Apache-2.0
// Runs the loads of several lanes at once.
#include "bench/step/lane_load.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

enum { START_NS = 3000000 };  // time for the threads to start

static void *part_run(void *context)
{
    struct lane_part *part = context;
    const struct timespec begin = {(time_t)(part->begin_ns / 1000000000), (long)(part->begin_ns % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL);
    part->code = lane_load_run(part->load, part->way, part->seconds, &part->done);
    snprintf(part->message, sizeof part->message, "%s", err_message());
    return NULL;
}

int lane_parts_run(struct lane_part parts[], int count, enum lane_way way, double seconds)
{
    assert(count > 0);
    uint64_t begin_ns = clock_now_ns() + START_NS;
    int started = 0, code = ERR_NONE;
    for (; started < count; started++) {
        struct lane_part *part = &parts[started];
        part->way = way;
        part->seconds = seconds;
        part->begin_ns = begin_ns;
        if (pthread_create(&part->thread, NULL, part_run, part) != 0)
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(parts[i].thread, NULL);
    if (started < count)
        return err_set(ERR_MEMORY, "cannot start a thread for a lane");
    for (int i = 0; i < count && code == ERR_NONE; i++)
        if (parts[i].code != ERR_NONE)
            code = err_set(parts[i].code, "%s: %s", parts[i].name, parts[i].message);
    for (int i = 0; i < count && code == ERR_NONE; i++)
        code = lane_load_check(parts[i].load);
    return code;
}
