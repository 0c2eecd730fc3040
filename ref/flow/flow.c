// SPDX-License-Identifier: Apache-2.0
// The executor's interface, the derivation of dependencies, and the serial mode.
#include "ref/flow/flow_internal.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/flow/emulate.h"
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int flow_schedule_parse(const char *text, struct flow_schedule *out)
{
    static const char chaos[] = "chaos:";
    const size_t prefix_length = sizeof chaos - 1;
    if (strcmp(text, "serial") == 0) {
        *out = (struct flow_schedule){FLOW_SERIAL, 0};
        return ERR_NONE;
    }
    if (strcmp(text, "overlap") == 0) {
        *out = (struct flow_schedule){FLOW_OVERLAP, 0};
        return ERR_NONE;
    }
    // strtoull alone would take spaces and a minus sign.
    if (strncmp(text, chaos, prefix_length) == 0 && text[prefix_length] >= '0' && text[prefix_length] <= '9') {
        char *end;
        errno = 0;
        unsigned long long seed = strtoull(text + prefix_length, &end, 10);
        if (*end == '\0' && errno == 0) {
            *out = (struct flow_schedule){FLOW_CHAOS, seed};
            return ERR_NONE;
        }
    }
    return err_set(ERR_USAGE,
                   "schedule \"%s\": expected serial, overlap or chaos:SEED, where SEED is a whole number "
                   "from 0 to 18446744073709551615",
                   text);
}

size_t flow_span_bytes(const struct flow_span spans[], size_t span_count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < span_count; i++)
        bytes += spans[i].bytes * (spans[i].access == FLOW_READ_WRITE ? 2 : 1);
    return bytes;
}

// Memory for operations, taken in chunks and given back all at once at a wait.
struct flow_chunk {
    struct flow_chunk *next;
    size_t used_bytes;
    size_t capacity_bytes;
    _Alignas(max_align_t) uint8_t data[];
};

static void *arena_take(struct flow *flow, size_t bytes)
{
    enum { CHUNK_BYTES = 64 << 10 };
    const size_t alignment = _Alignof(max_align_t);
    bytes = (bytes + alignment - 1) / alignment * alignment;
    struct flow_chunk *chunk = flow->arena;
    if (!chunk || bytes > chunk->capacity_bytes - chunk->used_bytes) {
        size_t capacity_bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        chunk = malloc(sizeof *chunk + capacity_bytes);
        if (!chunk)
            return NULL;
        *chunk = (struct flow_chunk){.next = flow->arena, .capacity_bytes = capacity_bytes};
        flow->arena = chunk;
    }
    void *memory = chunk->data + chunk->used_bytes;
    chunk->used_bytes += bytes;
    return memory;
}

// Keeps one chunk for the next round.
void flow_arena_reset(struct flow *flow)
{
    while (flow->arena && flow->arena->next) {
        struct flow_chunk *chunk = flow->arena;
        flow->arena = chunk->next;
        free(chunk);
    }
    if (flow->arena)
        flow->arena->used_bytes = 0;
}

static struct operation *copy_operation(struct flow *flow, const struct flow_operation *given)
{
    struct operation *operation = arena_take(flow, sizeof *operation);
    struct flow_span *spans = arena_take(flow, given->span_count * sizeof *spans);
    void *arguments = arena_take(flow, given->arguments_bytes);
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
        const struct flow_span *x = &a->spans[i];
        uintptr_t x_begin = (uintptr_t)x->address, x_end = x_begin + x->bytes;
        for (size_t j = 0; j < b->span_count; j++) {
            const struct flow_span *y = &b->spans[j];
            uintptr_t y_begin = (uintptr_t)y->address, y_end = y_begin + y->bytes;
            if (x_begin < y_end && y_begin < x_end && ((x->access | y->access) & FLOW_WRITE))
                return true;
        }
    }
    return false;
}

void flow_enqueue(struct flow *flow, struct operation *operation)
{
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct flow_lane *queue = &flow->lanes[lane];
        uint64_t number = queue->issued_count;
        if (lane != (int)operation->lane)
            for (const struct operation *other = queue->newest; other; other = other->earlier, number--)
                if (conflicts(operation, other)) {
                    operation->after[lane] = number;
                    break;
                }
    }
    struct flow_lane *queue = &flow->lanes[operation->lane];
    operation->earlier = queue->newest;
    if (queue->newest)
        queue->newest->later = operation;
    else
        queue->oldest = operation;
    queue->newest = operation;
    queue->issued_count++;
    flow->pending_count++;
}

struct operation *flow_ready(const struct flow *flow, enum lane lane)
{
    struct operation *operation = flow->lanes[lane].oldest;
    for (int other = 0; operation && other < LANE_COUNT; other++)
        if (flow->lanes[other].completed_count < operation->after[other])
            return NULL;
    return operation;
}

void flow_complete(struct flow *flow, enum lane lane)
{
    struct flow_lane *queue = &flow->lanes[lane];
    queue->oldest = queue->oldest->later;
    if (queue->oldest)
        queue->oldest->earlier = NULL;
    else
        queue->newest = NULL;
    queue->completed_count++;
    flow->pending_count--;
}

void flow_fail(struct flow *flow, int code)
{
    if (atomic_exchange(&flow->failing, true))
        return;
    strncpy(flow->message, err_message(), sizeof flow->message - 1);
    flow->code = code;
    if (flow->failed)
        flow->failed(flow->context, flow->message);
}

int flow_error(const struct flow *flow)
{
    int code = flow->code;
    return code == ERR_NONE ? ERR_NONE : err_set(code, "%s", flow->message);
}

int flow_run(const struct operation *operation)
{
    TRY(operation->run(operation->arguments));
    return accelerator_wait();
}

uint64_t flow_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

// A lane is one thread at a time, so its list needs no lock.
static int record(struct flow_lane *lane, const struct operation *operation, uint64_t begin_ns)
{
    if (lane->interval_count == lane->interval_capacity) {
        size_t capacity = 2 * lane->interval_capacity + 256;
        struct flow_interval *intervals = realloc(lane->intervals, capacity * sizeof *intervals);
        if (!intervals)
            return err_set(ERR_MEMORY, "flow: no memory for a timeline of %zu operations", capacity);
        lane->intervals = intervals;
        lane->interval_capacity = capacity;
    }
    lane->intervals[lane->interval_count++] =
        (struct flow_interval){operation->name, begin_ns, flow_now(), operation->bytes};
    return ERR_NONE;
}

void flow_ended(struct flow *flow, const struct operation *operation, uint64_t begin_ns)
{
    struct flow_lane *lane = &flow->lanes[operation->lane];
    if (lane->bytes_per_s > 0)
        emulation_sleep_until(begin_ns + (uint64_t)((double)operation->bytes / lane->bytes_per_s * 1e9));
    // What a timeline lacks, nobody could see in it.
    int code = flow->recording ? record(lane, operation, begin_ns) : ERR_NONE;
    if (code != ERR_NONE)
        flow_fail(flow, code);
}

void flow_emulate(struct flow *flow, const double bytes_per_s[LANE_COUNT])
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        flow->lanes[lane].bytes_per_s = bytes_per_s[lane];
}

void flow_record(struct flow *flow, bool on)
{
    flow->recording = on;
}

const struct flow_interval *flow_intervals(const struct flow *flow, enum lane lane, size_t *count)
{
    *count = flow->lanes[lane].interval_count;
    return flow->lanes[lane].intervals;
}

static int serial_open(struct flow *flow, uint64_t seed)
{
    (void)flow;
    (void)seed;
    return ERR_NONE;
}

static int serial_issue(struct flow *flow, struct operation *operation)
{
    uint64_t begin_ns = flow_now();
    int code = flow_run(operation);
    flow_ended(flow, operation, begin_ns);
    flow_arena_reset(flow);
    return code;
}

static void serial_nothing(struct flow *flow)
{
    (void)flow;
}

static const struct flow_way flow_way_serial = {serial_open, serial_issue, serial_nothing, serial_nothing};

int flow_open(struct flow_schedule schedule, int rank, struct tier *tier, flow_failed *failed, void *context,
              struct flow **out)
{
    static const struct flow_way *const ways[] = {
        [FLOW_SERIAL] = &flow_way_serial, [FLOW_OVERLAP] = &flow_way_overlap, [FLOW_CHAOS] = &flow_way_chaos,
        [FLOW_DRY] = &flow_way_dry};
    struct flow *flow = calloc(1, sizeof *flow);
    if (!flow)
        return err_set(ERR_MEMORY, "flow: no memory for its bookkeeping");
    flow->way = ways[schedule.mode];
    flow->rank = rank;
    flow->tier = tier;
    flow->failed = failed;
    flow->context = context;
    int code = flow->way->open(flow, schedule.seed);
    if (code != ERR_NONE) {
        free(flow);
        return code;
    }
    *out = flow;
    return ERR_NONE;
}

bool flow_is_dry(const struct flow *flow)
{
    return flow->way == &flow_way_dry;
}

int flow_issue(struct flow *flow, const struct flow_operation *operation)
{
    TRY(flow_error(flow));
    struct operation *copy = copy_operation(flow, operation);
    int code = copy ? flow->way->issue(flow, copy) : err_set(ERR_MEMORY, "flow: no memory for \"%s\"", operation->name);
    // An operation that cannot be issued leaves the peers waiting as surely as one that fails.
    if (code == ERR_NONE)
        return ERR_NONE;
    flow_fail(flow, code);
    int first = flow_error(flow);
    return first != ERR_NONE ? first : code;
}

int flow_wait(struct flow *flow)
{
    flow->way->wait(flow);
    flow_arena_reset(flow);
    return flow_error(flow);
}

void flow_close(struct flow *flow)
{
    if (!flow)
        return;
    flow->way->wait(flow);
    flow->way->close(flow);
    flow_arena_reset(flow);
    free(flow->arena);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        free(flow->lanes[lane].intervals);
    free(flow);
}
