// SPDX-License-Identifier: Apache-2.0
// The executor's interface, the derivation of dependencies, and the serial mode.
#include "ref/executor/executor_internal.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/executor/emulation.h"
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

// Memory for operations, taken in chunks and given back all at once at a wait.
struct executor_chunk {
    struct executor_chunk *next;
    size_t used_bytes;
    size_t capacity_bytes;
    _Alignas(max_align_t) uint8_t data[];
};

static void *arena_take(struct executor *executor, size_t bytes)
{
    enum { CHUNK_BYTES = 64 << 10 };
    const size_t alignment = _Alignof(max_align_t);
    bytes = (bytes + alignment - 1) / alignment * alignment;
    struct executor_chunk *chunk = executor->arena;
    if (!chunk || bytes > chunk->capacity_bytes - chunk->used_bytes) {
        size_t capacity_bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        chunk = malloc(sizeof *chunk + capacity_bytes);
        if (!chunk)
            return NULL;
        *chunk = (struct executor_chunk){.next = executor->arena, .capacity_bytes = capacity_bytes};
        executor->arena = chunk;
    }
    void *memory = chunk->data + chunk->used_bytes;
    chunk->used_bytes += bytes;
    return memory;
}

// Keeps one chunk for the next round.
void executor_arena_reset(struct executor *executor)
{
    while (executor->arena && executor->arena->next) {
        struct executor_chunk *chunk = executor->arena;
        executor->arena = chunk->next;
        free(chunk);
    }
    if (executor->arena)
        executor->arena->used_bytes = 0;
}

static struct operation *copy_operation(struct executor *executor, const struct executor_operation *given)
{
    struct operation *operation = arena_take(executor, sizeof *operation);
    struct executor_span *spans = arena_take(executor, given->span_count * sizeof *spans);
    void *arguments = arena_take(executor, given->arguments_bytes);
    if (!operation || !spans || !arguments)
        return NULL;
    size_t span_count = 0;
    for (size_t i = 0; i < given->span_count; i++)
        if (given->spans[i].bytes > 0)
            spans[span_count++] = given->spans[i];
    if (given->arguments_bytes > 0)
        memcpy(arguments, given->arguments, given->arguments_bytes);
    *operation = (struct operation){.name = given->name,
                                    .lane = given->lane,
                                    .run = given->run,
                                    .arguments = arguments,
                                    .spans = spans,
                                    .span_count = span_count,
                                    .bytes = given->bytes,
                                    .count = given->count,
                                    .times = given->times,
                                    .flops = given->flops,
                                    .work_bytes = given->work_bytes};
    return operation;
}

// Whether the two may not change places: they touch a byte that one of them writes.
static bool conflicts(const struct operation *a, const struct operation *b)
{
    for (size_t i = 0; i < a->span_count; i++) {
        const struct executor_span *x = &a->spans[i];
        uintptr_t x_begin = (uintptr_t)x->address, x_end = x_begin + x->bytes;
        for (size_t j = 0; j < b->span_count; j++) {
            const struct executor_span *y = &b->spans[j];
            uintptr_t y_begin = (uintptr_t)y->address, y_end = y_begin + y->bytes;
            if (x_begin < y_end && y_begin < x_end && ((x->access | y->access) & EXECUTOR_WRITE))
                return true;
        }
    }
    return false;
}

void executor_enqueue(struct executor *executor, struct operation *operation)
{
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct executor_lane *queue = &executor->lanes[lane];
        uint64_t number = queue->issued_count;
        if (lane != (int)operation->lane)
            for (const struct operation *other = queue->newest; other; other = other->earlier, number--)
                if (conflicts(operation, other)) {
                    operation->after[lane] = number;
                    break;
                }
    }
    struct executor_lane *queue = &executor->lanes[operation->lane];
    operation->earlier = queue->newest;
    if (queue->newest)
        queue->newest->later = operation;
    else
        queue->oldest = operation;
    queue->newest = operation;
    queue->issued_count++;
    executor->pending_count++;
}

struct operation *executor_ready(const struct executor *executor, enum lane lane)
{
    struct operation *operation = executor->lanes[lane].oldest;
    for (int other = 0; operation && other < LANE_COUNT; other++)
        if (executor->lanes[other].completed_count < operation->after[other])
            return NULL;
    return operation;
}

void executor_complete(struct executor *executor, enum lane lane)
{
    struct executor_lane *queue = &executor->lanes[lane];
    queue->oldest = queue->oldest->later;
    if (queue->oldest)
        queue->oldest->earlier = NULL;
    else
        queue->newest = NULL;
    queue->completed_count++;
    executor->pending_count--;
}

void executor_fail(struct executor *executor, int code)
{
    if (atomic_exchange(&executor->failing, true))
        return;
    strncpy(executor->message, err_message(), sizeof executor->message - 1);
    executor->code = code;
    if (executor->failed)
        executor->failed(executor->context, executor->message);
}

int executor_error(const struct executor *executor)
{
    int code = executor->code;
    return code == ERR_NONE ? ERR_NONE : err_set(code, "%s", executor->message);
}

int executor_run(const struct operation *operation)
{
    TRY(operation->run(operation->arguments));
    return accelerator_wait();
}

uint64_t executor_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

// A lane is one thread at a time, so its list needs no lock.
static int record(struct executor_lane *lane, const struct operation *operation, uint64_t begin_ns)
{
    if (lane->interval_count == lane->interval_capacity) {
        size_t capacity = 2 * lane->interval_capacity + 256;
        struct executor_interval *intervals = realloc(lane->intervals, capacity * sizeof *intervals);
        if (!intervals)
            return err_set(ERR_MEMORY, "executor: no memory for a timeline of %zu operations", capacity);
        lane->intervals = intervals;
        lane->interval_capacity = capacity;
    }
    lane->intervals[lane->interval_count++] =
        (struct executor_interval){operation->name, begin_ns, executor_now(), operation->bytes};
    return ERR_NONE;
}

void executor_ended(struct executor *executor, const struct operation *operation, uint64_t begin_ns)
{
    struct executor_lane *lane = &executor->lanes[operation->lane];
    if (lane->bytes_per_s > 0)
        emulation_sleep_until(begin_ns + (uint64_t)((double)operation->bytes / lane->bytes_per_s * 1e9));
    // What a timeline lacks, nobody could see in it.
    int code = executor->recording ? record(lane, operation, begin_ns) : ERR_NONE;
    if (code != ERR_NONE)
        executor_fail(executor, code);
}

void executor_emulate(struct executor *executor, const double bytes_per_s[LANE_COUNT])
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        executor->lanes[lane].bytes_per_s = bytes_per_s[lane];
}

void executor_record(struct executor *executor, bool on)
{
    executor->recording = on;
}

const struct executor_interval *executor_intervals(const struct executor *executor, enum lane lane, size_t *count)
{
    *count = executor->lanes[lane].interval_count;
    return executor->lanes[lane].intervals;
}

static int serial_open(struct executor *executor, uint64_t seed)
{
    (void)executor;
    (void)seed;
    return ERR_NONE;
}

static int serial_issue(struct executor *executor, struct operation *operation)
{
    uint64_t begin_ns = executor_now();
    int code = executor_run(operation);
    executor_ended(executor, operation, begin_ns);
    executor_arena_reset(executor);
    return code;
}

static void serial_nothing(struct executor *executor)
{
    (void)executor;
}

static const struct executor_mode_operations executor_mode_serial = {serial_open, serial_issue, serial_nothing,
                                                                     serial_nothing};

int executor_open(struct executor_schedule schedule, int rank, struct tier *tier, executor_failed *failed,
                  void *context, struct executor **out)
{
    static const struct executor_mode_operations *const modes[] = {[EXECUTOR_SERIAL] = &executor_mode_serial,
                                                                   [EXECUTOR_OVERLAP] = &executor_mode_overlap,
                                                                   [EXECUTOR_CHAOS] = &executor_mode_chaos,
                                                                   [EXECUTOR_DRY] = &executor_mode_dry};
    struct executor *executor = calloc(1, sizeof *executor);
    if (!executor)
        return err_set(ERR_MEMORY, "executor: no memory for its bookkeeping");
    executor->mode = modes[schedule.mode];
    executor->rank = rank;
    executor->tier = tier;
    executor->failed = failed;
    executor->context = context;
    int code = executor->mode->open(executor, schedule.seed);
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

int executor_issue(struct executor *executor, const struct executor_operation *operation)
{
    TRY(executor_error(executor));
    struct operation *copy = copy_operation(executor, operation);
    int code = copy ? executor->mode->issue(executor, copy)
                    : err_set(ERR_MEMORY, "executor: no memory for \"%s\"", operation->name);
    // An operation that cannot be issued leaves the peers waiting as surely as one that fails.
    if (code == ERR_NONE)
        return ERR_NONE;
    executor_fail(executor, code);
    int first = executor_error(executor);
    return first != ERR_NONE ? first : code;
}

int executor_wait(struct executor *executor)
{
    executor->mode->wait(executor);
    executor_arena_reset(executor);
    return executor_error(executor);
}

void executor_close(struct executor *executor)
{
    if (!executor)
        return;
    executor->mode->wait(executor);
    executor->mode->close(executor);
    executor_arena_reset(executor);
    free(executor->arena);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        free(executor->lanes[lane].intervals);
    free(executor);
}
