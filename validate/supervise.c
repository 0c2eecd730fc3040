// SPDX-License-Identifier: Apache-2.0
#include "validate/validate_world.h"

#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "base/err.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// mpirun waits a second when it ends a job. Within HEAR_S the failure of another rank may end the work by itself;
// within END_S the work returns after its collectives were aborted.
static const double HEAR_S = 0.2, END_S = 0.3;

struct job {
    int (*work)(void *context);
    void *context;
    int code;
    char message[1024];
    atomic_bool done;
};

static void *run(void *argument)
{
    struct job *job = argument;
    job->code = job->work(job->context);
    if (job->code != ERR_NONE)
        snprintf(job->message, sizeof job->message, "%s", err_message());
    atomic_store(&job->done, true);
    return NULL;
}

static double seconds_since(uint64_t begin_ns)
{
    return (double)(clock_now_ns() - begin_ns) * 1e-9;
}

// Returns whether the job is done within `seconds`.
static bool await(const struct job *job, double seconds)
{
    for (uint64_t begin_ns = clock_now_ns(); !atomic_load(&job->done);) {
        if (seconds_since(begin_ns) > seconds)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return true;
}

// Waits until the job is done, interrupted or out of time.
static enum launch_end watch(const struct job *job, double limit_s, const struct part_setting *setting,
                             struct supervised *out)
{
    uint64_t begin_ns = clock_now_ns();
    while (!await(job, 0.05)) {
        out->seconds = seconds_since(begin_ns);
        if (setting->tick)
            setting->tick(setting->tick_context, out->seconds);
        if (setting->interrupted && *setting->interrupted)
            return LAUNCH_INTERRUPTED;
        if (limit_s > 0 && out->seconds > limit_s)
            return LAUNCH_TIME;
    }
    out->seconds = seconds_since(begin_ns);
    return LAUNCH_EXITED;
}

int supervise(int (*work)(void *context), void *context, double limit_s, const struct part_setting *setting,
              struct supervised *out)
{
    assert(work && setting && limit_s >= 0);
    pthread_t thread;
    struct job *job = calloc(1, sizeof *job);
    *out = (struct supervised){0};
    if (!job)
        return err_set(ERR_MEMORY, "no memory to supervise work");
    job->work = work;
    job->context = context;
    if (pthread_create(&thread, NULL, run, job) != 0) {
        free(job);
        return err_set(ERR_MEMORY, "no thread for supervised work");
    }
    out->end = watch(job, limit_s, setting, out);
    char text[64] = "was interrupted";
    if (out->end == LAUNCH_TIME)
        snprintf(text, sizeof text, "timed out after %.0f s", out->seconds);
    if (out->end != LAUNCH_EXITED && !await(job, HEAR_S)) {
        comm_abort(bench_world_comm(), text);
        out->aborted = true;
        out->abandoned = !await(job, END_S);
    }
    if (out->abandoned) {
        snprintf(out->message, sizeof out->message, "%s", text);
        pthread_detach(thread);
        return ERR_NONE;
    }
    pthread_join(thread, NULL);
    out->code = job->code;
    snprintf(out->message, sizeof out->message, "%s", out->aborted ? text : job->message);
    out->message[strcspn(out->message, "\n")] = '\0';
    free(job);
    return ERR_NONE;
}
