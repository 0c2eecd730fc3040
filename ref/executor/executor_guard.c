// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/executor_guard.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "ref/executor/executor_fault.h"
#include "ref/tier/tier_poison.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A page that spans cover in part. Poison replaces its other bytes while the operation runs.
struct edge {
    uint8_t *page;
    uint8_t *saved;   // its bytes before the operation
    uint8_t *access;  // enum executor_access of each byte, 0 where no span is
};

struct executor_guard {
    struct tier *tier;
    struct executor_fault fault;
    size_t page_bytes;
    size_t span_capacity;  // of the arrays below
    struct tier_range *ranges;
    struct edge *edges;
    uint8_t *edge_memory;
    size_t edge_count;
    uint8_t *poison;  // one page of it
};

static void free_guard(struct executor_guard *guard)
{
    free(guard->ranges);
    free(guard->edges);
    free(guard->edge_memory);
    free(guard->poison);
    free(guard);
}

int executor_guard_open(struct tier *tier, int rank, executor_touch *touch, void *context, struct executor_guard **out)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct executor_guard *guard = calloc(1, sizeof *guard);
    uint8_t *poison = malloc(page_bytes);
    if (!guard || !poison) {
        free(guard);
        free(poison);
        return err_set(ERR_MEMORY, "executor: no memory for its bookkeeping");
    }
    *guard = (struct executor_guard){
        .tier = tier,
        .fault = {.tier = tier, .rank = rank, .touch = touch, .context = context, .issuer = pthread_self()},
        .page_bytes = page_bytes,
        .poison = poison,
    };
    tier_poison(poison, page_bytes);
    int code = executor_fault_open(&guard->fault);
    if (code != ERR_NONE) {
        free_guard(guard);
        return code;
    }
    *out = guard;
    return ERR_NONE;
}

void executor_guard_close(struct executor_guard *guard)
{
    if (!guard)
        return;
    executor_fault_close(&guard->fault);
    free_guard(guard);
}

// A span has at most two edges, and each edge is also a range.
static int reserve(struct executor_guard *guard, size_t span_count)
{
    if (span_count <= guard->span_capacity)
        return ERR_NONE;
    free(guard->ranges);
    free(guard->edges);
    free(guard->edge_memory);
    guard->ranges = malloc(3 * span_count * sizeof *guard->ranges);
    guard->edges = malloc(2 * span_count * sizeof *guard->edges);
    guard->edge_memory = malloc(4 * span_count * guard->page_bytes);
    bool complete = guard->ranges && guard->edges && guard->edge_memory;
    guard->span_capacity = complete ? span_count : 0;
    return complete ? ERR_NONE : err_set(ERR_MEMORY, "executor: no memory for %zu spans", span_count);
}

// Adds the page that holds address, unless a page begins there.
static void add_edge(struct executor_guard *guard, const uint8_t *address)
{
    size_t offset = (uintptr_t)address % guard->page_bytes;
    if (offset == 0)
        return;
    uint8_t *page = (uint8_t *)address - offset;
    for (size_t i = 0; i < guard->edge_count; i++)
        if (guard->edges[i].page == page)
            return;
    uint8_t *memory = guard->edge_memory + 2 * guard->edge_count * guard->page_bytes;
    guard->edges[guard->edge_count++] = (struct edge){page, memory, memory + guard->page_bytes};
}

// The end of the run of equal bytes that begins at `at`.
static size_t run_end(const uint8_t *bytes, size_t at, size_t end)
{
    uint64_t eight = bytes[at] * UINT64_C(0x0101010101010101), there;
    size_t next = at;
    for (; next + sizeof eight <= end; next += sizeof eight) {
        memcpy(&there, bytes + next, sizeof there);
        if (there != eight)
            break;
    }
    while (next < end && bytes[next] == bytes[at])
        next++;
    return next;
}

// Saves the bytes that the operation must not change, and poisons those that it must not read.
static void cover_edge(const struct executor_guard *guard, const struct edge *edge, const struct operation *operation)
{
    uintptr_t page = (uintptr_t)edge->page, page_end = page + guard->page_bytes;
    memset(edge->access, 0, guard->page_bytes);
    for (size_t i = 0; i < operation->span_count; i++) {
        const struct executor_span *span = &operation->spans[i];
        uintptr_t begin = (uintptr_t)span->address, end = begin + span->bytes;
        begin = begin > page ? begin : page;
        end = end < page_end ? end : page_end;
        uint8_t *access = edge->access, of_span = (uint8_t)span->access;
        for (; begin < end; begin++)
            access[begin - page] |= of_span;
    }
    for (size_t at = 0, next; at < guard->page_bytes; at = next) {
        next = run_end(edge->access, at, guard->page_bytes);
        if (!(edge->access[at] & EXECUTOR_WRITE))
            memcpy(edge->saved + at, edge->page + at, next - at);
        if (edge->access[at] == 0)
            tier_poison(edge->page + at, next - at);
    }
}

// Restores the saved bytes. Returns the first byte that the operation changed without declaring a write, or null.
static const uint8_t *uncover_edge(const struct executor_guard *guard, const struct edge *edge)
{
    const uint8_t *changed = NULL;
    for (size_t at = 0, next; at < guard->page_bytes; at = next) {
        next = run_end(edge->access, at, guard->page_bytes);
        if (edge->access[at] & EXECUTOR_WRITE)
            continue;
        const uint8_t *expected = edge->access[at] == 0 ? guard->poison : edge->saved;
        if (!changed && memcmp(edge->page + at, expected + at, next - at) != 0)
            for (changed = edge->page + at; *changed == expected[changed - edge->page]; changed++)
                continue;
        if (edge->access[at] == 0)
            memcpy(edge->page + at, edge->saved + at, next - at);
    }
    return changed;
}

static int cover(struct executor_guard *guard, const struct operation *operation)
{
    TRY(reserve(guard, operation->span_count));
    size_t range_count = 0;
    guard->edge_count = 0;
    for (size_t i = 0; i < operation->span_count; i++) {
        const struct executor_span *span = &operation->spans[i];
        guard->ranges[range_count++] =
            (struct tier_range){span->address, span->bytes, (span->access & EXECUTOR_WRITE) != 0};
        if (tier_name_of(guard->tier, span->address) && !accelerator_of(span->address)) {
            add_edge(guard, span->address);
            add_edge(guard, (const uint8_t *)span->address + span->bytes);
        }
    }
    for (size_t i = 0; i < guard->edge_count; i++)
        guard->ranges[range_count++] = (struct tier_range){guard->edges[i].page, 1, true};
    int code = tier_protect(guard->tier, guard->ranges, range_count);
    if (code != ERR_NONE) {
        guard->edge_count = 0;
        return err_prefix(code, "rank %d: operation \"%s\" on lane %s", guard->fault.rank, operation->name,
                          ledger_lane_name(operation->lane));
    }
    for (size_t i = 0; i < guard->edge_count; i++)
        cover_edge(guard, &guard->edges[i], operation);
    return ERR_NONE;
}

int executor_guard_run(struct executor_guard *guard, const struct operation *operation)
{
    TRY(cover(guard, operation));
    executor_fault_enter(&guard->fault, operation);
    int code = executor_run(operation);
    executor_fault_leave(&guard->fault);
    const uint8_t *changed = NULL;
    for (size_t i = 0; i < guard->edge_count; i++) {
        const uint8_t *here = uncover_edge(guard, &guard->edges[i]);
        changed = changed ? changed : here;
    }
    if (code != ERR_NONE || !changed)
        return code;
    return err_set(ERR_INTERNAL,
                   "rank %d: operation \"%s\" on lane %s wrote at offset %td of \"%s\", which was not "
                   "declared so (a write needs a span that is written)",
                   guard->fault.rank, operation->name, ledger_lane_name(operation->lane),
                   tier_offset_of(guard->tier, changed), tier_name_of(guard->tier, changed));
}

int executor_guard_watch(struct executor_guard *guard)
{
    guard->fault.issuer = pthread_self();
    return tier_protect(guard->tier, NULL, 0);
}

int executor_guard_lift(struct executor_guard *guard)
{
    return tier_unprotect(guard->tier);
}
