// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/executor_log.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "ref/executor/executor_guard.h"

#include <assert.h>
#include <stdlib.h>

struct logger {
    struct executor_guard *guard;  // null where there is no tier to guard
    struct executor_log *log;      // null: none is kept
};

void executor_keep_log(struct executor *executor, struct executor_log *log)
{
    assert(executor->mode == &executor_mode_log && log->count == 0);
    ((struct logger *)executor->state)->log = log;
}

void executor_log_close(struct executor_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        free(log->entries[i].spans);
        free(log->entries[i].memory);
    }
    free(log->entries);
    *log = (struct executor_log){0};
}

static int append(const struct executor *executor, const struct executor_entry *entry)
{
    struct executor_log *log = ((struct logger *)executor->state)->log;
    if (!log)
        return ERR_NONE;
    TRY(array_grow(&log->entries, &log->capacity, log->count, sizeof *log->entries, "entries of a log"));
    struct executor_entry *copy = &log->entries[log->count];
    *copy = *entry;
    copy->spans = malloc(entry->span_count * sizeof *copy->spans + 1);
    copy->memory = malloc(entry->span_count * sizeof *copy->memory + 1);
    if (!copy->spans || !copy->memory) {
        free(copy->spans);
        free(copy->memory);
        return err_set(ERR_MEMORY, "executor: no memory for a log");
    }
    for (size_t i = 0; i < entry->span_count; i++) {
        copy->spans[i] = entry->spans[i];
        copy->memory[i] = executor->tier ? tier_name_of(executor->tier, entry->spans[i].address) : NULL;
    }
    log->count++;
    return ERR_NONE;
}

// Nothing is pending, so the page opens. A fault is synchronous, and its handler may allocate.
static const struct operation *log_touch(void *context, const void *address, const struct tier_range *page)
{
    (void)address;
    struct executor_span span = {page->address, page->bytes, page->writable ? EXECUTOR_WRITE : EXECUTOR_READ};
    if (append(context, &(struct executor_entry){.kind = ENTRY_TOUCH, .spans = &span, .span_count = 1}) != ERR_NONE)
        abort();
    return NULL;
}

static int log_open(struct executor *executor, uint64_t seed)
{
    (void)seed;
    struct logger *logger = executor->state = calloc(1, sizeof *logger);
    if (!logger)
        return err_set(ERR_MEMORY, "executor: no memory for its bookkeeping");
    int code = ERR_NONE;
    if (executor->tier)
        code = executor_guard_open(executor->tier, executor->rank, log_touch, executor, &logger->guard);
    if (code != ERR_NONE)
        free(logger);
    return code;
}

static int log_issue(struct executor *executor, struct operation *operation)
{
    struct executor_guard *guard = ((struct logger *)executor->state)->guard;
    const struct executor_entry entry = {.kind = ENTRY_OPERATION,
                                         .name = operation->name,
                                         .lane = operation->lane,
                                         .spans = (struct executor_span *)(uintptr_t)operation->spans,
                                         .span_count = operation->span_count};
    TRY(append(executor, &entry));
    uint64_t begin_ns = clock_now_ns();
    int code = guard ? executor_guard_run(guard, operation) : executor_run(operation);
    executor_ended(executor, operation, begin_ns);
    executor_arena_reset(executor);
    int watched = guard ? executor_guard_watch(guard) : ERR_NONE;
    return code != ERR_NONE ? code : watched;
}

static void log_wait(struct executor *executor, const struct executor_span *span)
{
    struct executor_guard *guard = ((struct logger *)executor->state)->guard;
    int code = append(executor, &(struct executor_entry){.kind = ENTRY_WAIT,
                                                         .spans = (struct executor_span *)(uintptr_t)span,
                                                         .span_count = span ? 1 : 0});
    // After a wait for all the thread, and those of other ranks, may touch everything.
    if (code == ERR_NONE && guard)
        code = span ? executor_guard_watch(guard) : executor_guard_lift(guard);
    if (code != ERR_NONE)
        executor_fail(executor, code);
}

static void log_close(struct executor *executor)
{
    struct logger *logger = executor->state;
    if (logger->guard) {
        (void)executor_guard_lift(logger->guard);
        executor_guard_close(logger->guard);
    }
    free(logger);
}

const struct executor_mode_operations executor_mode_log = {log_open, log_issue, log_wait, log_close};
