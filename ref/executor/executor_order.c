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
static void release_chunks(struct executor_chunk **at)
{
    while (*at) {
        struct executor_chunk *chunk = *at;
        if (atomic_load(&chunk->pending_count) > 0) {
            at = &chunk->next;
            continue;
        }
        *at = chunk->next;
        free(chunk);
    }
}

// A chunk with room for `bytes`; null: no memory.
static struct executor_chunk *chunk_for(struct executor *executor, size_t bytes)
{
    enum { CHUNK_BYTES = 64 << 10 };
    struct executor_chunk *chunk = executor->arena;
    if (chunk && bytes <= chunk->capacity_bytes - chunk->used_bytes)
        return chunk;
    release_chunks(&executor->arena);
    size_t capacity_bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    chunk = malloc(sizeof *chunk + capacity_bytes);
    if (!chunk)
        return NULL;
    *chunk = (struct executor_chunk){.next = executor->arena, .capacity_bytes = capacity_bytes};
    executor->arena = chunk;
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
    release_chunks(&chunk->next);
}

static size_t aligned(size_t bytes)
{
    const size_t alignment = _Alignof(max_align_t);
    return (bytes + alignment - 1) / alignment * alignment;
}

struct operation *executor_copy(struct executor *executor, const struct executor_operation *given)
{
    size_t spans_at = aligned(sizeof(struct operation));
    size_t arguments_at = spans_at + aligned(given->span_count * sizeof *given->spans);
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
                                    .stride = given->stride};
    return operation;
}

// True if the two must keep their order: both touch a byte that at least one of them writes.
static bool conflicts(const struct executor_span spans[], size_t span_count, const struct operation *b)
{
    for (size_t i = 0; i < span_count; i++) {
        const struct executor_span *x = &spans[i];
        uintptr_t x_begin = (uintptr_t)x->address, x_end = x_begin + x->bytes;
        for (size_t j = 0; j < b->span_count; j++) {
            const struct executor_span *y = &b->spans[j];
            uintptr_t y_begin = (uintptr_t)y->address, y_end = y_begin + y->bytes;
            if (x->bytes > 0 && x_begin < y_end && y_begin < x_end && ((x->access | y->access) & EXECUTOR_WRITE))
                return true;
        }
    }
    return false;
}

// One thread that waits for other ranks in one lane cannot let them go on in another.
static bool meet_in_order(const struct executor *executor, const struct operation *a, const struct operation *b)
{
    return executor->mode == &executor_mode_chaos && a->meets && b->meets;
}

void executor_enqueue(struct executor *executor, struct operation *operation)
{
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct executor_lane *queue = &executor->lanes[lane];
        uint64_t number = queue->issued_count;
        if (lane != (int)operation->lane)
            for (const struct operation *other = queue->newest; other; other = other->earlier, number--)
                if (conflicts(operation->spans, operation->span_count, other) ||
                    meet_in_order(executor, operation, other)) {
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
    atomic_fetch_add(&operation->chunk->pending_count, 1);
}

void executor_find_after(const struct executor *executor, const struct executor_span spans[], size_t span_count,
                         uint64_t after[LANE_COUNT])
{
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        const struct executor_lane *queue = &executor->lanes[lane];
        const struct operation *other = queue->newest;
        after[lane] = queue->issued_count;
        for (; spans && other && !conflicts(spans, span_count, other); other = other->earlier)
            after[lane]--;
        if (!other)
            after[lane] = queue->completed_count;
    }
}

const struct operation *executor_find_conflict(const struct executor *executor, const struct executor_span *span)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (const struct operation *other = executor->lanes[lane].oldest; other; other = other->later)
            if (conflicts(span, 1, other))
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
    queue->oldest = queue->oldest->later;
    if (queue->oldest)
        queue->oldest->earlier = NULL;
    else
        queue->newest = NULL;
    queue->completed_count++;
    executor->pending_count--;
    atomic_fetch_sub(&chunk->pending_count, 1);
}
