// SPDX-License-Identifier: Apache-2.0
// The operations that are not complete: their memory, and the order that their spans require.
#include "ref/executor/executor_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Memory for operations, allocated in chunks and released together at a wait.
struct executor_chunk {
    struct executor_chunk *next;
    size_t used_bytes;
    size_t capacity_bytes;
    _Alignas(max_align_t) uint8_t data[];
};

static void *arena_allocate(struct executor *executor, size_t bytes)
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

// Keeps one chunk for the next operations.
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

struct operation *executor_copy(struct executor *executor, const struct executor_operation *given)
{
    struct operation *operation = arena_allocate(executor, sizeof *operation);
    struct executor_span *spans = arena_allocate(executor, given->span_count * sizeof *spans);
    void *arguments = arena_allocate(executor, given->arguments_bytes);
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
                if (conflicts(operation, other) || meet_in_order(executor, operation, other)) {
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
    assert(queue->oldest && queue->completed_count < queue->issued_count && executor->pending_count > 0);
    queue->oldest = queue->oldest->later;
    if (queue->oldest)
        queue->oldest->earlier = NULL;
    else
        queue->newest = NULL;
    queue->completed_count++;
    executor->pending_count--;
}
