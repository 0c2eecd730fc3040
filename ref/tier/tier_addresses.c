// SPDX-License-Identifier: Apache-2.0
// Where a tier's allocations lie. Most are small: these follow each other in stretches, each with one system call for
// its addresses and one for its end, when all that it held is freed. Where many ranks share a process, such calls wait
// for each other.
#include "ref/tier/tier_internal.h"

#include "base/err.h"

#include <stdlib.h>

enum { STRETCH_PAGES = 128, SMALL_PAGES = 16 };

struct stretch {
    struct stretch *next;
    char *begin;
    size_t used_pages, allocation_count;
};

static char *reserve(char *at, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    char *reserved = mmap(at, bytes, PROT_NONE, flags, -1, 0);
    return reserved == MAP_FAILED ? NULL : reserved;
}

static struct stretch *add_stretch(struct tier *tier)
{
    struct stretch *stretch = malloc(sizeof *stretch);
    char *begin = stretch ? reserve(NULL, STRETCH_PAGES * tier->page_bytes) : NULL;
    if (!begin) {
        free(stretch);
        return NULL;
    }
    *stretch = (struct stretch){.next = tier->stretches, .begin = begin};
    tier->stretches = stretch;
    return stretch;
}

static char *take_from_stretch(struct tier *tier, size_t pages, struct stretch **out)
{
    struct stretch *stretch = tier->stretches;
    if (!stretch || stretch->used_pages + pages > STRETCH_PAGES)
        stretch = add_stretch(tier);
    *out = stretch;
    if (!stretch)
        return NULL;
    char *begin = stretch->begin + stretch->used_pages * tier->page_bytes;
    stretch->used_pages += pages;
    stretch->allocation_count++;
    return begin;
}

// Ends a stretch; `link` is what points to it.
static void end_stretch(const struct tier *tier, struct stretch **link)
{
    struct stretch *stretch = *link;
    *link = stretch->next;
    munmap(stretch->begin, STRETCH_PAGES * tier->page_bytes);
    free(stretch);
}

static char *take_alone(const struct tier *tier, size_t data_bytes, size_t alignment)
{
    size_t page = tier->page_bytes, bytes = data_bytes + alignment + page;
    char *reserved = reserve(NULL, bytes);
    if (!reserved)
        return NULL;
    char *begin = (char *)(((uintptr_t)reserved + page + alignment - 1) / alignment * alignment) - page;
    char *end = begin + data_bytes + 2 * page;
    if (begin > reserved)
        munmap(reserved, (size_t)(begin - reserved));
    if (end < reserved + bytes)
        munmap(end, (size_t)(reserved + bytes - end));
    return begin;
}

char *tier_take_addresses(struct tier *tier, size_t data_bytes, size_t alignment, struct stretch **stretch)
{
    *stretch = NULL;
    if (data_bytes <= SMALL_PAGES * tier->page_bytes)
        return take_from_stretch(tier, data_bytes / tier->page_bytes + 2, stretch);
    return take_alone(tier, data_bytes, alignment);
}

void tier_give_addresses(struct tier *tier, char *begin, char *end, struct stretch *stretch)
{
    if (!stretch) {
        munmap(begin, (size_t)(end - begin));
        return;
    }
    struct stretch **link = &tier->stretches;
    if (--stretch->allocation_count > 0) {
        (void)reserve(begin, (size_t)(end - begin));
        return;
    }
    while (*link != stretch)
        link = &(*link)->next;
    end_stretch(tier, link);
}

void tier_end_stretches(struct tier *tier)
{
    while (tier->stretches)
        end_stretch(tier, &tier->stretches);
}
