// SPDX-License-Identifier: Apache-2.0
// For tests of the executor: schedules, a log of the order in which operations ran, a barrier of threads, and child
// processes.
#pragma once

#include "ref/executor/executor.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct executor_schedule SERIAL = {EXECUTOR_SERIAL, 0}, OVERLAP = {EXECUTOR_OVERLAP, 0};

static inline struct executor_schedule chaos(uint64_t seed)
{
    return (struct executor_schedule){EXECUTOR_CHAOS, seed};
}

static inline struct executor *open_executor(struct executor_schedule schedule, int rank, struct tier *tier)
{
    struct executor *executor = NULL;
    cr_assert_eq(executor_open(schedule, rank, tier, NULL, NULL, &executor), ERR_NONE, "%s", err_message());
    return executor;
}

// Issues an operation without a cost, which only plans ask for.
static inline int issue(struct executor *executor, const char *name, enum lane lane, int (*run)(void *),
                        const void *arguments, size_t arguments_bytes, const struct executor_span *spans,
                        size_t span_count)
{
    return executor_issue(executor, &(struct executor_operation){.name = name,
                                                                 .lane = lane,
                                                                 .run = run,
                                                                 .arguments = arguments,
                                                                 .arguments_bytes = arguments_bytes,
                                                                 .spans = spans,
                                                                 .span_count = span_count});
}

static inline int nothing(void *arguments)
{
    (void)arguments;
    return ERR_NONE;
}

// A log of which operation ran when.
enum { LOG_LENGTH = 200 };
struct log {
    atomic_int count;
    int entries[LOG_LENGTH];
};
struct log_entry {
    struct log *log;
    int number;
};

static inline int write_log(void *arguments)
{
    struct log_entry *entry = arguments;
    entry->log->entries[atomic_fetch_add(&entry->log->count, 1)] = entry->number;
    return ERR_NONE;
}

static inline int issue_log(struct executor *executor, enum lane lane, struct log *log, int number)
{
    struct log_entry entry = {log, number};
    return issue(executor, "log", lane, write_log, &entry, sizeof entry, NULL, 0);
}

// A barrier of a number of threads, as a collective is.
struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t met;
    int size, arrived, round;
};

static inline void meet(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->lock);
    int round = meeting->round;
    if (++meeting->arrived == meeting->size) {
        meeting->arrived = 0;
        meeting->round++;
        pthread_cond_broadcast(&meeting->met);
    }
    while (round == meeting->round)
        pthread_cond_wait(&meeting->met, &meeting->lock);
    pthread_mutex_unlock(&meeting->lock);
}

static inline int run_meet(void *arguments)
{
    meet(*(struct meeting **)arguments);
    return ERR_NONE;
}

// How a body in a child process ended, for code that ends the program.
struct child_end {
    int status;         // exit status; -1 if a signal ended it
    char output[4096];  // stderr, truncated to fit
};

// A body that returns ends the child with status 0.
static inline struct child_end child_run(void (*body)(void *argument), void *argument)
{
    struct child_end end = {.status = -1};
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        body(argument);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    char rest[4096];
    for (ssize_t got; (got = read(ends[0], rest, sizeof rest)) > 0;)
        for (ssize_t i = 0; i < got && length < sizeof end.output - 1; i++)
            end.output[length++] = rest[i];
    close(ends[0]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        end.status = WEXITSTATUS(status);
    return end;
}
