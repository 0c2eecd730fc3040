// SPDX-License-Identifier: Apache-2.0
// The executor's interface and the serial mode.
#include "ref/executor/executor_internal.h"

#include "base/array.h"
#include "base/clock.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/executor/emulation.h"
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int executor_schedule_parse(const char *text, struct executor_schedule *out)
{
    static const char chaos[] = "chaos:";
    const size_t prefix_length = sizeof chaos - 1;
    if (strcmp(text, "serial") == 0) {
        *out = (struct executor_schedule){EXECUTOR_SERIAL, 0};
        return ERR_NONE;
    }
    if (strcmp(text, "overlap") == 0) {
        *out = (struct executor_schedule){EXECUTOR_OVERLAP, 0};
        return ERR_NONE;
    }
    // strtoull alone would take spaces and a minus sign.
    if (strncmp(text, chaos, prefix_length) == 0 && text[prefix_length] >= '0' && text[prefix_length] <= '9') {
        char *end;
        errno = 0;
        unsigned long long seed = strtoull(text + prefix_length, &end, 10);
        if (*end == '\0' && errno == 0) {
            *out = (struct executor_schedule){EXECUTOR_CHAOS, seed};
            return ERR_NONE;
        }
    }
    return err_set(ERR_USAGE,
                   "schedule \"%s\": expected serial, overlap or chaos:SEED, where SEED is a whole number "
                   "from 0 to 18446744073709551615",
                   text);
}

size_t executor_span_bytes(const struct executor_span spans[], size_t span_count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < span_count; i++)
        bytes += spans[i].bytes * (spans[i].access == EXECUTOR_READ_WRITE ? 2 : 1);
    return bytes;
}

void executor_fail(struct executor *executor, int code)
{
    assert(code != ERR_NONE);
    if (atomic_exchange(&executor->failing, true))
        return;
    strncpy(executor->message, err_message(), sizeof executor->message - 1);
    executor->code = code;
    if (executor->failed)
        executor->failed(executor->context, executor->message);
}

// The first error, its message restored in the calling thread; 0 if there is none.
static int first_error(const struct executor *executor)
{
    int code = executor->code;
    return code == ERR_NONE ? ERR_NONE : err_set(code, "%s", executor->message);
}

int executor_run(const struct operation *operation)
{
    TRY(operation->run(operation->arguments));
    return accelerator_wait();
}

// One thread at a time runs a lane, so its list needs no lock.
static int record(struct executor_lane *lane, const struct operation *operation, uint64_t begin_ns)
{
    TRY(array_grow(&lane->intervals, &lane->interval_capacity, lane->interval_count, sizeof *lane->intervals,
                   "operations of a timeline"));
    lane->intervals[lane->interval_count++] = (struct executor_interval){.name = operation->name,
                                                                         .begin_ns = begin_ns,
                                                                         .end_ns = clock_now_ns(),
                                                                         .bytes = operation->bytes,
                                                                         .work_bytes = operation->work_bytes,
                                                                         .flops = operation->flops};
    return ERR_NONE;
}

void executor_ended(struct executor *executor, const struct operation *operation, uint64_t begin_ns)
{
    struct executor_lane *lane = &executor->lanes[operation->lane];
    if (lane->bytes_per_s > 0)
        emulation_sleep_until(begin_ns + (uint64_t)((double)operation->bytes / lane->bytes_per_s * 1e9));
    // A timeline with missing operations would mislead, so it is an error.
    int code = executor->recording ? record(lane, operation, begin_ns) : ERR_NONE;
    if (code != ERR_NONE)
        executor_fail(executor, code);
}

void executor_emulate(struct executor *executor, const double bytes_per_s[LANE_COUNT])
{
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        assert(executor->lanes[lane].issued_count == 0 && bytes_per_s[lane] >= 0);
        executor->lanes[lane].bytes_per_s = bytes_per_s[lane];
    }
}

void executor_record(struct executor *executor, bool on)
{
    assert(executor->pending_count == 0);
    executor->recording = on;
}

const struct executor_interval *executor_intervals(const struct executor *executor, enum lane lane, size_t *count)
{
    assert((unsigned)lane < LANE_COUNT && executor->pending_count == 0);
    *count = executor->lanes[lane].interval_count;
    return executor->lanes[lane].intervals;
}

static int serial_issue(struct executor *executor, struct operation *operation)
{
    uint64_t begin_ns = clock_now_ns();
    int code = executor_run(operation);
    executor_ended(executor, operation, begin_ns);
    executor_arena_reset(executor);
    return code;
}

static void serial_wait(struct executor *executor, const struct executor_span *span)
{
    (void)executor, (void)span;
}

static const struct executor_mode_operations executor_mode_serial = {.issue = serial_issue, .wait = serial_wait};

int executor_open(struct executor_schedule schedule, int rank, struct tier *tier, executor_failed *failed,
                  void *context, struct executor **out)
{
    static const struct executor_mode_operations *const modes[] = {[EXECUTOR_SERIAL] = &executor_mode_serial,
                                                                   [EXECUTOR_OVERLAP] = &executor_mode_overlap,
                                                                   [EXECUTOR_CHAOS] = &executor_mode_chaos,
                                                                   [EXECUTOR_DRY] = &executor_mode_dry,
                                                                   [EXECUTOR_LOG] = &executor_mode_log};
    assert((unsigned)schedule.mode < sizeof modes / sizeof *modes && rank >= 0);
    struct executor *executor = calloc(1, sizeof *executor);
    if (!executor)
        return err_set(ERR_MEMORY, "executor: no memory for its bookkeeping");
    executor->mode = modes[schedule.mode];
    executor->rank = rank;
    executor->bucket = -1;
    executor->tier = tier;
    executor->failed = failed;
    executor->context = context;
    int code = executor->mode->open ? executor->mode->open(executor, schedule.seed) : ERR_NONE;
    if (code != ERR_NONE) {
        free(executor);
        return code;
    }
    *out = executor;
    return ERR_NONE;
}

bool executor_is_dry(const struct executor *executor)
{
    return executor->mode == &executor_mode_dry;
}

void executor_set_bucket(struct executor *executor, int bucket)
{
    executor->bucket = bucket;
}

int executor_issue(struct executor *executor, const struct executor_operation *operation)
{
    assert(operation->name && (unsigned)operation->lane < LANE_COUNT);
    assert(operation->run || executor_is_dry(executor));
    assert(operation->arguments || operation->arguments_bytes == 0);
    assert(operation->spans || operation->span_count == 0);
    TRY(first_error(executor));
    struct operation *copy = executor_copy(executor, operation);
    int code = copy ? executor->mode->issue(executor, copy)
                    : err_set(ERR_MEMORY, "executor: no memory for \"%s\"", operation->name);
    // The peers would wait for an operation that was not issued just as for one that failed.
    if (code == ERR_NONE)
        return ERR_NONE;
    executor_fail(executor, code);
    int first = first_error(executor);
    return first != ERR_NONE ? first : code;
}

int executor_wait(struct executor *executor)
{
    executor->mode->wait(executor, NULL);
    assert(executor->pending_count == 0);
    executor_arena_reset(executor);
    return first_error(executor);
}

int executor_wait_for(struct executor *executor, const struct executor_span *span)
{
    assert(span);
    executor->mode->wait(executor, span);
    return first_error(executor);
}

void executor_close(struct executor *executor)
{
    if (!executor)
        return;
    executor->mode->wait(executor, NULL);
    if (executor->mode->close)
        executor->mode->close(executor);
    executor_arena_reset(executor);
    free(executor->arena);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        free(executor->lanes[lane].intervals);
    free(executor);
}
