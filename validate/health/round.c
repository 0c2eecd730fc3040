// SPDX-License-Identifier: Apache-2.0
#include "validate/health/health_round.h"

#include "base/clock.h"
#include "base/err.h"
#include "ref/tier/folder_room.h"
#include "validate/health/vote.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t result_offset(const struct health_round_setting *setting, size_t operation)
{
    // Each result begins at a cache line.
    const size_t line = 64;
    size_t at = 0;
    for (size_t i = 0; i < operation; i++)
        at += (setting->operations[i].result_bytes + line - 1) / line * line;
    return at;
}

static struct health_place place_of(const struct health_round_setting *setting, size_t index, int attempt)
{
    size_t folders = 0;
    while (setting->folders && setting->folders[folders])
        folders++;
    return (struct health_place){.core = setting->cores[index],
                                 .neighbour = setting->cores[(index + 1) % setting->core_count],
                                 .folder = folders ? setting->folders[index % folders] : NULL,
                                 .round = setting->round,
                                 .attempt = attempt,
                                 .flip = setting->flip};
}

static void run_operation(struct core_run *run, size_t i, int attempt)
{
    const struct health_operation *operation = &run->setting->operations[i];
    struct health_place place = place_of(run->setting, run->index, attempt);
    unsigned char *result = run->results + result_offset(run->setting, i);
    double begin = clock_now_s();
    place.moving_s = &run->moving_s[i];
    memset(result, 0, operation->result_bytes);
    run->codes[i] = operation->run(operation, &place, run->setting->seed, result);
    run->seconds[i] = clock_now_s() - begin;
    snprintf(run->texts[i], sizeof run->texts[i], "%s", run->codes[i] == ERR_NONE ? "" : err_message());
}

static void *run_core(void *context)
{
    struct core_run *run = context;
    run->pinned = pin_to(run->setting->cores[run->index]);
    if (run->pinned != ERR_NONE)
        return NULL;
    const volatile sig_atomic_t *interrupted = run->setting->interrupted;
    for (size_t i = 0; i < run->setting->operation_count && !(interrupted && *interrupted); i++) {
        run_operation(run, i, 0);
        run->done++;
    }
    return NULL;
}

// One operation again, on a thread of that core.
struct again {
    struct core_run *run;
    size_t operation;
    int attempt;
};

static void *run_again(void *context)
{
    struct again *again = context;
    again->run->pinned = pin_to(again->run->setting->cores[again->run->index]);
    if (again->run->pinned == ERR_NONE)
        run_operation(again->run, again->operation, again->attempt);
    return NULL;
}

int core_run_again(struct core_run *run, size_t operation, int attempt)
{
    pthread_t thread;
    struct again again = {run, operation, attempt};
    if (pthread_create(&thread, NULL, run_again, &again) != 0)
        return err_set(ERR_MEMORY, "no thread for core %d", run->setting->cores[run->index]);
    pthread_join(thread, NULL);
    return run->pinned;
}

static void account(const struct core_run *runs, size_t done, struct health_work *work)
{
    const struct health_round_setting *setting = runs->setting;
    for (size_t i = 0; i < done; i++) {
        const struct health_operation *o = &setting->operations[i];
        for (size_t core = 0; core < setting->core_count; core++) {
            work->core_seconds[o->lane] += runs[core].seconds[i];
            work->moving_seconds[o->lane] += runs[core].moving_s[i];
        }
        work->moved_bytes[o->lane] += setting->core_count * o->moved_bytes;
        work->compared_bits[o->lane] += 8 * (setting->core_count - 1) * (uint64_t)o->result_bytes;
        work->runs[o->lane] += setting->core_count;
    }
}

// A core's file and, with a margin, what its training writes.
enum { FILES_OF_CORE_BYTES = HEALTH_FILE_BYTES + (1 << 20) };

int health_check_room(const struct health_round_setting *setting)
{
    size_t folders = 0;
    while (setting->folders && setting->folders[folders])
        folders++;
    for (size_t i = 0; i < folders; i++) {
        size_t cores = setting->core_count / folders + (i < setting->core_count % folders);
        TRY(folder_check_room("--nvme-path", setting->folders[i], cores * (uint64_t)FILES_OF_CORE_BYTES));
    }
    return ERR_NONE;
}

// An operation that could not run because memory or room on a disk was short is no verdict about the core. Others may
// have filled a disk since the room was found.
static int check_resources(const struct core_run *runs, size_t done)
{
    const struct health_round_setting *setting = runs->setting;
    for (size_t core = 0; core < setting->core_count; core++)
        for (size_t i = 0; i < done; i++) {
            int code = runs[core].codes[i];
            if (code == ERR_MEMORY)
                return err_set(code, "%s: %s", setting->operations[i].name, runs[core].texts[i]);
            if (code != ERR_NONE && code != ERR_CHECK)
                TRY(health_check_room(setting));
        }
    return ERR_NONE;
}

static int run_all(struct core_run *runs, const struct health_round_setting *setting, size_t *done)
{
    pthread_t threads[HEALTH_CORE_MAX];
    size_t started = 0;
    int code = ERR_NONE;
    for (; started < setting->core_count && code == ERR_NONE; started++)
        if (pthread_create(&threads[started], NULL, run_core, &runs[started]) != 0) {
            code = err_set(ERR_MEMORY, "no thread for core %d", setting->cores[started]);
            break;
        }
    *done = setting->operation_count;
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        if (code == ERR_NONE && runs[i].pinned != ERR_NONE)
            code = err_set(runs[i].pinned, "core %d: this process may not run there", setting->cores[i]);
        *done = runs[i].done < *done ? runs[i].done : *done;
    }
    return code;
}

int health_round(const struct health_round_setting *setting, struct health_round *out)
{
    *out = (struct health_round){0};
    struct core_run *runs = calloc(setting->core_count, sizeof *runs);
    size_t bytes = result_offset(setting, setting->operation_count), done;
    unsigned char *results = calloc(setting->core_count, bytes);
    out->results = calloc(1, bytes);
    int code =
        runs && results && out->results ? ERR_NONE : err_set(ERR_MEMORY, "out of memory for the results of a round");
    for (size_t i = 0; i < setting->core_count && code == ERR_NONE; i++)
        runs[i] = (struct core_run){.setting = setting, .index = i, .results = results + i * bytes};
    if (code == ERR_NONE)
        code = run_all(runs, setting, &done);
    if (code == ERR_NONE)
        code = check_resources(runs, done);
    if (code == ERR_NONE)
        account(runs, done, &out->work);
    for (size_t i = 0; code == ERR_NONE && i < done; i++)
        code = health_vote(runs, i, out);
    free(results);
    free(runs);
    return code;
}

void health_round_free(struct health_round *round)
{
    free(round->mismatches);
    free(round->results);
    *round = (struct health_round){0};
}

// More cores than any machine of these years has; the kernel's masks have a fixed size in glibc's simple interface.
enum { CORE_LIMIT = 4096 };

int pin_to(int core)
{
    cpu_set_t *set = CPU_ALLOC(CORE_LIMIT);
    size_t bytes = CPU_ALLOC_SIZE(CORE_LIMIT);
    if (!set)
        return err_set(ERR_MEMORY, "out of memory for a set of cores");
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)core, bytes, set);
    int status = sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
    return status == 0 ? ERR_NONE : err_set(ERR_USAGE, "core %d: this process may not run there", core);
}

size_t pin_cores(int out[], size_t most)
{
    size_t count = 0, bytes = CPU_ALLOC_SIZE(CORE_LIMIT);
    cpu_set_t *set = CPU_ALLOC(CORE_LIMIT);
    if (set && sched_getaffinity(0, bytes, set) == 0)
        for (int core = 0; core < CORE_LIMIT && count < most; core++)
            if (CPU_ISSET_S((size_t)core, bytes, set))
                out[count++] = core;
    if (set)
        CPU_FREE(set);
    return count;
}
