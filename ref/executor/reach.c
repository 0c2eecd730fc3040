// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/reach.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

// Finds the links, on every level, to the first range that ends behind an address.
static void find_links(struct reach *reach, uintptr_t address, struct reach_range **links[REACH_LEVELS])
{
    struct reach_range **level = reach->first;
    for (int i = REACH_LEVELS - 1; i >= 0; i--) {
        while (level[i] && level[i]->end <= address)
            level = level[i]->next;
        links[i] = &level[i];
    }
}

// Each level holds a quarter of the ranges of the level below.
static int draw_height(struct reach *reach)
{
    int height = 1;
    reach->random = reach->random * 6364136223846793005u + 1442695040888963407u;
    for (uint64_t bits = reach->random >> 24; (bits & 3) == 0 && height < REACH_LEVELS; bits >>= 2)
        height++;
    return height;
}

// Adds a range that overlaps no other. like: the range whose history it takes; null: it has none.
static int add(struct reach *reach, uintptr_t begin, uintptr_t end, const struct reach_range *like,
               struct reach_range **out)
{
    struct reach_range **links[REACH_LEVELS];
    int height = draw_height(reach);
    struct reach_range *range = malloc(sizeof *range + (size_t)height * sizeof range->next[0]);
    if (!range)
        return err_set(ERR_MEMORY, "executor: no memory for the dependencies of a plan");
    range->begin = begin;
    range->end = end;
    range->writer = like ? like->writer : REACH_NO_EVENT;
    range->reader = like ? like->reader : REACH_NO_EVENT;
    find_links(reach, begin, links);
    for (int i = 0; i < height; i++) {
        range->next[i] = *links[i];
        *links[i] = range;
    }
    *out = range;
    return ERR_NONE;
}

// Splits a range in two; *out is the second.
static int cut(struct reach *reach, struct reach_range *range, uintptr_t at, struct reach_range **out)
{
    assert(range->begin < at && at < range->end);
    uintptr_t end = range->end;
    range->end = at;
    return add(reach, at, end, range, out);
}

// The first range that ends behind an address. Operations access the same spans again and again, and a range keeps its
// begin, so that a range that was found stays the one for its address.
static struct reach_range *find(struct reach *reach, uintptr_t address)
{
    struct reach_range **recent =
        &reach->recent[(uint64_t)address * UINT64_C(0x9e3779b97f4a7c15) >> (64 - REACH_RECENT_BITS)];
    if (*recent && (*recent)->begin == address)
        return *recent;
    struct reach_range *const *level = reach->first;
    for (int i = REACH_LEVELS - 1; i >= 0; i--)
        while (level[i] && level[i]->end <= address)
            level = level[i]->next;
    return *recent = level[0];
}

int reach_cover(struct reach *reach, const struct executor_span *span, struct reach_range **out)
{
    uintptr_t at = (uintptr_t)span->address, end = at + span->bytes;
    struct reach_range *range = find(reach, at), *rest;
    *out = NULL;
    while (at < end) {
        if (!range || range->begin > at)
            TRY(add(reach, at, range && range->begin < end ? range->begin : end, NULL, &range));
        else if (range->begin < at)
            TRY(cut(reach, range, at, &range));
        if (range->end > end)
            TRY(cut(reach, range, end, &rest));
        *out = *out ? *out : range;
        at = range->end;
        range = range->next[0];
    }
    return ERR_NONE;
}

void reach_close(struct reach *reach)
{
    for (struct reach_range *range = reach->first[0], *next; range; range = next) {
        next = range->next[0];
        free(range);
    }
}
