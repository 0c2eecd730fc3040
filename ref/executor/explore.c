// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/explore_internal.h"

#include "base/err.h"
#include "ref/executor/executor_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The first pair of spans that access the same byte, one of them writing; false: there is none.
static bool find_conflict(const struct executor_entry *a, const struct executor_entry *b, size_t *of_a, size_t *of_b)
{
    for (size_t i = 0; i < a->span_count; i++)
        for (size_t j = 0; j < b->span_count; j++) {
            const struct executor_span *x = &a->spans[i], *y = &b->spans[j];
            uintptr_t x_begin = (uintptr_t)x->address, y_begin = (uintptr_t)y->address;
            if (x_begin < y_begin + y->bytes && y_begin < x_begin + x->bytes &&
                ((x->access | y->access) & EXECUTOR_WRITE)) {
                *of_a = i;
                *of_b = j;
                return true;
            }
        }
    return false;
}

static bool conflict(const struct executor_entry *a, const struct executor_entry *b)
{
    size_t of_a, of_b;
    return find_conflict(a, b, &of_a, &of_b);
}

// The dependencies are the product's: its own code derives them, on an executor whose operations never complete.
static int derive(struct explorer *x, struct executor *executor)
{
    uint64_t after[LANE_COUNT];
    for (size_t i = 0; i < x->count; i++) {
        struct event *event = &x->events[i];
        const struct executor_entry *entry = event->entry;
        event->after.count[CHAIN_ISSUER] = (uint32_t)i + (entry->kind == ENTRY_OPERATION);
        event->place = i;
        if (entry->kind == ENTRY_WAIT) {
            executor_find_after(executor, entry->span_count > 0 ? entry->spans : NULL, entry->span_count, after);
            for (int lane = 0; lane < LANE_COUNT; lane++)
                event->after.count[lane] = (uint32_t)after[lane];
        }
        if (entry->kind != ENTRY_OPERATION)
            continue;
        const struct executor_operation given = {
            .name = entry->name, .lane = entry->lane, .spans = entry->spans, .span_count = entry->span_count};
        struct operation *operation = executor_copy(executor, &given);
        if (!operation)
            return err_set(ERR_MEMORY, "explore: no memory for %zu operations", x->count);
        event->place = x->run_count[entry->lane];
        x->runs[entry->lane][x->run_count[entry->lane]++] = i;
        executor_enqueue(executor, operation);
        for (int lane = 0; lane < LANE_COUNT; lane++)
            event->after.count[lane] = (uint32_t)operation->after[lane];
        event->after.count[entry->lane] = (uint32_t)event->place;
    }
    return ERR_NONE;
}

static int derive_dependencies(struct explorer *x)
{
    struct executor *executor = calloc(1, sizeof *executor);
    if (!executor)
        return err_set(ERR_MEMORY, "explore: no memory for an executor");
    executor->mode = &executor_mode_overlap;
    int code = derive(x, executor);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        while (executor->lanes[lane].oldest)
            executor_complete(executor, (enum lane)lane);
    executor_arena_reset(executor);
    free(executor->arena);
    free(executor);
    return code;
}

// An event needs all earlier ones that it conflicts with; the log alone tells.
static void derive_needs(struct explorer *x)
{
    for (size_t i = 0; i < x->count; i++)
        for (size_t j = 0; j < i; j++) {
            struct event *late = &x->events[i];
            const struct event *early = &x->events[j];
            if (!conflict(early->entry, late->entry))
                continue;
            int chain = chain_of(early);
            if (early->place + 1 > late->needed.count[chain]) {
                late->needed.count[chain] = (uint32_t)early->place + 1;
                late->owner[chain] = j;
            }
            x->conflict_count++;
        }
}

int explorer_open(const struct executor_log *log, struct explorer **out)
{
    struct explorer *x = *out = calloc(1, sizeof *x);
    if (!x || !(x->events = calloc(log->count + 1, sizeof *x->events)))
        return err_set(ERR_MEMORY, "explore: no memory for %zu events", log->count);
    x->count = log->count;
    for (size_t i = 0; i < x->count; i++)
        x->events[i].entry = &log->entries[i];
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (!(x->runs[lane] = malloc((log->count + 1) * sizeof *x->runs[lane])))
            return err_set(ERR_MEMORY, "explore: no memory for %zu events", log->count);
    TRY(derive_dependencies(x));
    derive_needs(x);
    return ERR_NONE;
}

void explorer_close(struct explorer *x)
{
    for (int lane = 0; x && lane < LANE_COUNT; lane++)
        free(x->runs[lane]);
    if (x)
        free(x->events);
    free(x);
}

static int put_event(const struct event *event, char *out, size_t room)
{
    if (event->entry->kind == ENTRY_OPERATION)
        return snprintf(out, room, "operation \"%s\" (%zu on lane %s)", event->entry->name, event->place + 1,
                        ledger_lane_name(event->entry->lane));
    return snprintf(out, room, "the issuing thread (entry %zu)", event->place + 1);
}

void explorer_tell(const struct explorer *x, const struct event *early, const struct event *late, char *out)
{
    size_t of_early = 0, of_late = 0;
    char first[128], second[128];
    bool found = find_conflict(early->entry, late->entry, &of_early, &of_late);
    assert(found);
    (void)found;
    (void)x;
    put_event(early, first, sizeof first);
    put_event(late, second, sizeof second);
    const char *memory = late->entry->memory[of_late];
    bool reads = late->entry->spans[of_late].access == EXECUTOR_READ;
    snprintf(out, EXPLORE_MESSAGE_BYTES, "%s can %s \"%s\" before %s %s it: it expects %s", second,
             reads ? "read" : "write", memory ? memory : "memory", first,
             early->entry->spans[of_early].access == EXECUTOR_READ ? "has read" : "writes",
             reads ? "that version, and finds an older one" : "an older version to be done with");
}

static void join(struct moment *moment, const struct moment *other)
{
    for (int chain = 0; chain < CHAIN_COUNT; chain++)
        if (other->count[chain] > moment->count[chain])
            moment->count[chain] = other->count[chain];
}

// Finds which events must have happened before each one, all that these imply included; `missing` waits for nothing in
// the chain `without`, or with CHAIN_COUNT in no lane.
static void close_orders(const struct explorer *x, size_t missing, int without, struct moment must[])
{
    struct moment issuer = {0};
    for (size_t i = 0; i < x->count; i++) {
        const struct event *event = &x->events[i];
        struct moment own = event->after;
        int chain = chain_of(event);
        for (int lane = 0; i == missing && lane < LANE_COUNT; lane++)
            if ((lane == without || without == CHAIN_COUNT) && lane != chain)
                own.count[lane] = 0;
        must[i] = own;
        join(&must[i], &issuer);
        for (int lane = 0; lane < LANE_COUNT; lane++)
            if (own.count[lane] > 0)
                join(&must[i], &must[x->runs[lane][own.count[lane] - 1]]);
        if (chain == CHAIN_ISSUER)
            issuer = must[i];
    }
}

// The first pair that is not ordered as issued; null: all are.
static const struct event *find_unordered(const struct explorer *x, const struct moment must[],
                                          const struct event **early)
{
    for (size_t i = 0; i < x->count; i++)
        for (int chain = 0; chain < CHAIN_COUNT; chain++)
            if (x->events[i].needed.count[chain] > must[i].count[chain]) {
                *early = &x->events[x->events[i].owner[chain]];
                return &x->events[i];
            }
    return NULL;
}

int explorer_prove(const struct explorer *x, struct explored *out)
{
    struct moment *must = calloc(x->count + 1, sizeof *must);
    if (!must)
        return err_set(ERR_MEMORY, "explore: no memory for %zu events", x->count);
    *out = (struct explored){.conflict_count = x->conflict_count, .right = true};
    for (size_t i = 0; i < x->count; i++) {
        out->operation_count += x->events[i].entry->kind == ENTRY_OPERATION;
        out->wait_count += x->events[i].entry->kind == ENTRY_WAIT;
        out->touch_count += x->events[i].entry->kind == ENTRY_TOUCH;
    }
    close_orders(x, x->count, CHAIN_COUNT, must);
    const struct event *early, *late = find_unordered(x, must, &early);
    if (late) {
        out->right = false;
        explorer_tell(x, early, late, out->message);
    }
    free(must);
    return ERR_NONE;
}

// Without one dependency, is anything unordered, or do others still require it?
static void leave_out(const struct explorer *x, size_t at, int chain, const struct moment all[], struct moment must[],
                      struct left_out *out)
{
    const struct event *early;
    close_orders(x, at, chain, must);
    if (find_unordered(x, must, &early))
        out->found++;
    else if (memcmp(must, all, x->count * sizeof *must) == 0)
        out->implied++;
    else if (x->events[at].entry->kind == ENTRY_WAIT)
        out->idle++;
    else
        out->missed++;
}

int explorer_leave_out(const struct explorer *x, struct left_out *out)
{
    struct moment *all = calloc(x->count + 1, sizeof *all), *must = calloc(x->count + 1, sizeof *must);
    *out = (struct left_out){0};
    int code = all && must ? ERR_NONE : err_set(ERR_MEMORY, "explore: no memory for %zu events", x->count);
    if (code == ERR_NONE)
        close_orders(x, x->count, CHAIN_COUNT, all);
    for (size_t i = 0; code == ERR_NONE && i < x->count; i++) {
        const struct event *event = &x->events[i];
        if (event->entry->kind == ENTRY_WAIT)
            leave_out(x, i, CHAIN_COUNT, all, must, out);
        for (int lane = 0; event->entry->kind == ENTRY_OPERATION && lane < LANE_COUNT; lane++)
            if (event->after.count[lane] > 0 && lane != (int)event->entry->lane)
                leave_out(x, i, lane, all, must, out);
    }
    free(all);
    free(must);
    return code;
}

int explorer_dependencies(const struct explorer *x, bool (*counts)(const char *name), char **out)
{
    size_t bytes = 0, number = 0, *numbers = calloc(x->count + 1, sizeof *numbers);
    FILE *text = open_memstream(out, &bytes);
    if (!numbers || !text) {
        free(numbers);
        if (text)
            fclose(text);
        return err_set(ERR_MEMORY, "explore: no memory for %zu events", x->count);
    }
    for (size_t i = 0; i < x->count; i++) {
        const struct executor_entry *entry = x->events[i].entry;
        if (entry->kind == ENTRY_TOUCH || (entry->kind == ENTRY_OPERATION && !counts(entry->name)))
            continue;
        numbers[i] = ++number;
        fprintf(text, "%zu %s:", number, entry->kind == ENTRY_WAIT ? "wait" : entry->name);
        for (size_t j = 0; j < i; j++)
            if (numbers[j] > 0 && x->events[j].entry->kind == ENTRY_OPERATION &&
                (conflict(x->events[j].entry, entry) || (entry->kind == ENTRY_WAIT && entry->span_count == 0)))
                fprintf(text, " %zu", numbers[j]);
        fprintf(text, "\n");
    }
    free(numbers);
    fclose(text);
    return ERR_NONE;
}
