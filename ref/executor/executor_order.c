// SPDX-License-Identifier: Apache-2.0
// The operations that are not complete: their memory, and the order that their spans require.
#include "ref/executor/executor_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Memory for operations. A chunk is used again when all operations in it are complete. Lanes complete them; the owner
// alone has the list.
struct executor_chunk {
    struct executor_chunk *next;
    atomic_size_t pending_count;  // operations in it
    size_t used_bytes;
    size_t capacity_bytes;
    _Alignas(max_align_t) uint8_t data[];
};

// Frees the chunks behind *at without pending operations.
static void release_chunks(struct executor *executor, struct executor_chunk **at)
{
    while (*at) {
        struct executor_chunk *chunk = *at;
        if (atomic_load(&chunk->pending_count) > 0) {
            at = &chunk->next;
            continue;
        }
        *at = chunk->next;
        free(chunk);
        executor->arena_chunks--;
    }
}

// Looks at each chunk only after as many new ones, so that the work for one does not grow with their number.
static void release_some_chunks(struct executor *executor)
{
    if (executor->arena_chunks < executor->arena_limit)
        return;
    release_chunks(executor, &executor->arena);
    executor->arena_limit = 2 * executor->arena_chunks;
}

// A chunk with room for `bytes`; null: no memory.
static struct executor_chunk *chunk_for(struct executor *executor, size_t bytes)
{
    enum { CHUNK_BYTES = 64 << 10 };
    struct executor_chunk *chunk = executor->arena;
    if (chunk && bytes <= chunk->capacity_bytes - chunk->used_bytes)
        return chunk;
    release_some_chunks(executor);
    size_t capacity_bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    chunk = malloc(sizeof *chunk + capacity_bytes);
    if (!chunk)
        return NULL;
    *chunk = (struct executor_chunk){.next = executor->arena, .capacity_bytes = capacity_bytes};
    executor->arena = chunk;
    executor->arena_chunks++;
    return chunk;
}

// Keeps one chunk for the next operations.
void executor_arena_reset(struct executor *executor)
{
    struct executor_chunk *chunk = executor->arena;
    if (!chunk)
        return;
    assert(atomic_load(&chunk->pending_count) == 0);
    chunk->used_bytes = 0;
    release_chunks(executor, &chunk->next);
    executor->arena_limit = 0;
}

static size_t aligned(size_t bytes)
{
    const size_t alignment = _Alignof(max_align_t);
    return (bytes + alignment - 1) / alignment * alignment;
}

struct operation *executor_copy(struct executor *executor, const struct executor_operation *given)
{
    size_t spans_at = aligned(sizeof(struct operation));
    size_t run_spans_at = spans_at + aligned(given->span_count * sizeof *given->spans);
    size_t arguments_at = run_spans_at + aligned(given->span_count * sizeof *given->spans);
    size_t bytes = arguments_at + aligned(given->arguments_bytes);
    struct executor_chunk *chunk = chunk_for(executor, bytes);
    if (!chunk)
        return NULL;
    uint8_t *memory = chunk->data + chunk->used_bytes;
    chunk->used_bytes += bytes;
    struct operation *operation = (struct operation *)(void *)memory;
    struct executor_span *spans = (struct executor_span *)(void *)(memory + spans_at);
    void *arguments = memory + arguments_at;
    size_t span_count = 0;
    for (size_t i = 0; i < given->span_count; i++)
        if (given->spans[i].bytes > 0)
            spans[span_count++] = given->spans[i];
    if (given->arguments_bytes > 0)
        memcpy(arguments, given->arguments, given->arguments_bytes);
    *operation = (struct operation){.chunk = chunk,
                                    .own_run.spans = (struct executor_span *)(void *)(memory + run_spans_at),
                                    .name = given->name,
                                    .bucket = executor->bucket,
                                    .lane = given->lane,
                                    .run = given->run,
                                    .arguments = arguments,
                                    .spans = spans,
                                    .span_count = span_count,
                                    .meets = given->meets || given->lane == LANE_COLLECTIVE,
                                    .bytes = given->bytes,
                                    .count = given->count,
                                    .times = given->times,
                                    .flops = given->flops,
                                    .work_bytes = given->work_bytes,
                                    .ranks = given->ranks,
                                    .stride = given->stride,
                                    .is_reduced = given->is_reduced};
    return operation;
}

// True if the two must keep their order: both touch a byte that at least one of them writes.
static bool conflicts(const struct executor_span a[], size_t a_count, const struct executor_span b[], size_t b_count)
{
    for (size_t i = 0; i < a_count; i++) {
        const struct executor_span *x = &a[i];
        uintptr_t x_begin = (uintptr_t)x->address, x_end = x_begin + x->bytes;
        for (size_t j = 0; j < b_count; j++) {
            const struct executor_span *y = &b[j];
            uintptr_t y_begin = (uintptr_t)y->address, y_end = y_begin + y->bytes;
            if (x->bytes > 0 && x_begin < y_end && y_begin < x_end && ((x->access | y->access) & EXECUTOR_WRITE))
                return true;
        }
    }
    return false;
}

// The number of the lane's newest pending operation that conflicts with these spans; 0: none does. meets: so does one
// that waits for other ranks. Adds the number of comparisons to *compared.
static uint64_t newest_conflict(const struct executor_lane *queue, const struct executor_span spans[],
                                size_t span_count, bool meets, uint64_t *compared)
{
    for (const struct executor_run *run = queue->newest_run; run; run = run->earlier, ++*compared) {
        const struct operation *other = run->newest;
        if (meets && other->meets)
            return run->last;
        if (!conflicts(spans, span_count, run->spans, other->span_count))
            continue;
        for (uint64_t number = run->last; other && number >= run->first; other = other->earlier, number--, ++*compared)
            if (conflicts(spans, span_count, other->spans, other->span_count))
                return number;
    }
    return 0;
}

static bool has_spans_of(const struct operation *operation, const struct operation *other)
{
    bool equal = operation->span_count == other->span_count && operation->meets == other->meets;
    for (size_t i = 0; equal && i < operation->span_count; i++) {
        const struct executor_span *a = &operation->spans[i], *b = &other->spans[i];
        equal = a->address == b->address && a->bytes == b->bytes && a->access == b->access;
    }
    return equal;
}

// An operation with the spans of the one before it on its lane has the same dependencies on what was issued before.
static void find_dependencies(struct executor *executor, struct operation *operation)
{
    const struct executor_run *run = executor->lanes[operation->lane].newest_run;
    bool like_before = run && has_spans_of(operation, run->newest);
    // One thread that waits for other ranks in one lane cannot let them go on in another.
    bool meets = executor->mode == &executor_mode_chaos && operation->meets;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        const struct executor_lane *queue = &executor->lanes[lane];
        if (lane == (int)operation->lane)
            continue;
        if (!like_before || queue->issued_count > run->issued[lane])
            operation->after[lane] =
                newest_conflict(queue, operation->spans, operation->span_count, meets, &executor->compared_count);
        else if (run->newest->after[lane] > queue->completed_count)
            operation->after[lane] = run->newest->after[lane];
    }
}

static bool continues(const struct executor_run *run, const struct operation *operation)
{
    bool does = run && operation->span_count == run->newest->span_count && operation->meets == run->newest->meets;
    for (size_t i = 0; does && i < operation->span_count; i++) {
        const struct executor_span *whole = &run->spans[i], *span = &operation->spans[i];
        uintptr_t begin = (uintptr_t)whole->address, at = (uintptr_t)span->address;
        does = span->access == whole->access && at >= begin && at <= begin + whole->bytes;
    }
    return does;
}

static struct executor_run *begin_run(struct executor_lane *queue, struct operation *operation)
{
    struct executor_run *run = &operation->own_run;
    run->chunk = operation->chunk;
    run->earlier = queue->newest_run;
    run->first = queue->issued_count;
    for (size_t i = 0; i < operation->span_count; i++)
        run->spans[i] = operation->spans[i];
    queue->newest_run = run;
    atomic_fetch_add(&run->chunk->pending_count, 1);
    return run;
}

// Adds the newest operation of its lane to the lane's newest run, or begins one with it.
static void enter_run(struct executor *executor, struct operation *operation)
{
    struct executor_lane *queue = &executor->lanes[operation->lane];
    struct executor_run *run =
        continues(queue->newest_run, operation) ? queue->newest_run : begin_run(queue, operation);
    for (size_t i = 0; i < operation->span_count; i++) {
        const struct executor_span *span = &operation->spans[i];
        size_t end = (uintptr_t)span->address - (uintptr_t)run->spans[i].address + span->bytes;
        run->spans[i].bytes = end > run->spans[i].bytes ? end : run->spans[i].bytes;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        run->issued[lane] = executor->lanes[lane].issued_count;
    run->last = queue->issued_count;
    run->newest = operation;
    operation->part_of = run;
}

void executor_enqueue(struct executor *executor, struct operation *operation)
{
    struct executor_lane *queue = &executor->lanes[operation->lane];
    find_dependencies(executor, operation);
    operation->earlier = queue->newest;
    if (queue->newest)
        queue->newest->later = operation;
    else
        queue->oldest = operation;
    queue->newest = operation;
    queue->issued_count++;
    executor->pending_count++;
    atomic_fetch_add(&operation->chunk->pending_count, 1);
    enter_run(executor, operation);
}

void executor_find_after(const struct executor *executor, const struct executor_span spans[], size_t span_count,
                         uint64_t after[LANE_COUNT])
{
    uint64_t compared = 0;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        const struct executor_lane *queue = &executor->lanes[lane];
        uint64_t number = spans ? newest_conflict(queue, spans, span_count, false, &compared) : queue->issued_count;
        after[lane] = number > 0 ? number : queue->completed_count;
    }
}

const struct operation *executor_find_conflict(const struct executor *executor, const struct executor_span *span)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (const struct operation *other = executor->lanes[lane].oldest; other; other = other->later)
            if (conflicts(span, 1, other->spans, other->span_count))
                return other;
    return NULL;
}

bool executor_reached(const struct executor *executor, const uint64_t after[LANE_COUNT])
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (executor->lanes[lane].completed_count < after[lane])
            return false;
    return true;
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
    assert(queue->oldest && queue->completed_count < queue->issued_count && executor->pending_count > 0);
    struct executor_chunk *chunk = queue->oldest->chunk;
    struct executor_run *run = queue->oldest->part_of;
    bool ends = run->newest == queue->oldest;
    queue->oldest = queue->oldest->later;
    if (queue->oldest)
        queue->oldest->earlier = NULL;
    else
        queue->newest = NULL;
    if (ends && queue->oldest)
        queue->oldest->part_of->earlier = NULL;
    else if (ends)
        queue->newest_run = NULL;
    queue->completed_count++;
    executor->pending_count--;
    if (ends)
        atomic_fetch_sub(&run->chunk->pending_count, 1);
    atomic_fetch_sub(&chunk->pending_count, 1);
}
