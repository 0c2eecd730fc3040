// SPDX-License-Identifier: Apache-2.0
// Where a tier's allocations lie. Most are small and last until the tier closes: these follow each other in stretches,
// each with one system call for its addresses and one for its end, whatever it holds. Where many ranks share a process,
// such calls wait for each other.
#include "ref/tier/tier_internal.h"

#include "base/err.h"

#include <stdlib.h>

enum { STRETCH_PAGES = 128, SMALL_PAGES = 16 };

struct stretch {
    struct stretch *next;
    char *begin;
    size_t used_pages;
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

static char *take_from_stretch(struct tier *tier, size_t pages)
{
    struct stretch *stretch = tier->stretches;
    if (!stretch || stretch->used_pages + pages > STRETCH_PAGES)
        stretch = add_stretch(tier);
    if (!stretch)
        return NULL;
    char *begin = stretch->begin + stretch->used_pages * tier->page_bytes;
    stretch->used_pages += pages;
    return begin;
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

char *tier_take_addresses(struct tier *tier, size_t data_bytes, size_t alignment, bool *in_stretch)
{
    *in_stretch = data_bytes <= SMALL_PAGES * tier->page_bytes;
    return *in_stretch ? take_from_stretch(tier, data_bytes / tier->page_bytes + 2)
                       : take_alone(tier, data_bytes, alignment);
}

void tier_give_addresses(char *begin, char *end, bool in_stretch)
{
    // Of a stretch the addresses stay, without memory.
    if (in_stretch)
        (void)reserve(begin, (size_t)(end - begin));
    else
        munmap(begin, (size_t)(end - begin));
}

void tier_end_stretches(struct tier *tier)
{
    for (struct stretch *stretch = tier->stretches, *next; stretch; stretch = next) {
        next = stretch->next;
        munmap(stretch->begin, STRETCH_PAGES * tier->page_bytes);
        free(stretch);
    }
    tier->stretches = NULL;
}
