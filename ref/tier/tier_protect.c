// SPDX-License-Identifier: Apache-2.0
// Page protection of a tier's host memory, for the chaos schedule.
#include "ref/tier/tier_internal.h"

#include "base/err.h"

#include <assert.h>
#include <string.h>

// Gives the pages their wanted protection, with one system call for each run of pages that differ from it.
static int apply_protection(const struct tier *tier, struct allocation *allocation)
{
    const uint8_t *wanted = allocation->wanted;
    uint8_t *pages = allocation->pages;
    for (size_t first = 0, next; first < allocation->page_count; first = next) {
        next = first + 1;
        if (pages[first] == wanted[first])
            continue;
        while (next < allocation->page_count && wanted[next] == wanted[first] && pages[next] != wanted[next])
            next++;
        size_t bytes = (next - first) * tier->page_bytes;
        if (mprotect(allocation->address + first * tier->page_bytes, bytes, wanted[first]))
            return err_set(ERR_MEMORY, "device memory: cannot change the protection of \"%s\": %m", allocation->name);
        memset(pages + first, wanted[first], next - first);
    }
    return ERR_NONE;
}

// Adds a range to the wanted protection of the allocation that it lies in.
static int want(struct tier *tier, const struct tier_range *range)
{
    uintptr_t begin = (uintptr_t)range->address, end = begin + range->bytes;
    for (struct allocation *entry = tier->allocations; entry; entry = entry->next) {
        if (entry->begin == 0 || end <= entry->begin || begin >= entry->end)
            continue;
        uintptr_t data = (uintptr_t)entry->address;
        if (begin < data || end > data + entry->bytes)
            return err_set(ERR_INTERNAL, "%zu bytes at offset %td are not within \"%s\", which has %zu bytes",
                           range->bytes, (ptrdiff_t)(begin - data), entry->name, entry->bytes);
        if (entry->apart)
            return ERR_NONE;
        if (entry->access != PARTLY) {
            entry->access = PARTLY;
            memset(entry->wanted, PROT_NONE, entry->page_count);
        }
        for (size_t page = (begin - data) / tier->page_bytes; page <= (end - 1 - data) / tier->page_bytes; page++)
            entry->wanted[page] |= range->writable ? READ_WRITE : PROT_READ;
        return ERR_NONE;
    }
    return ERR_NONE;
}

int tier_protect(struct tier *tier, const struct tier_range ranges[], size_t range_count)
{
    assert(ranges || range_count == 0);
    for (struct allocation *entry = tier->allocations; entry; entry = entry->next) {
        if (entry->begin == 0 || entry->access == CLOSED)
            continue;
        memset(entry->wanted, PROT_NONE, entry->page_count);
        entry->access = PARTLY;
    }
    for (size_t i = 0; i < range_count; i++)
        if (ranges[i].bytes > 0)
            TRY(want(tier, &ranges[i]));
    for (struct allocation *entry = tier->allocations; entry; entry = entry->next) {
        if (entry->begin == 0 || entry->access == CLOSED)
            continue;
        TRY(apply_protection(tier, entry));
        if (!memchr(entry->pages, PROT_READ, entry->page_count) && !memchr(entry->pages, READ_WRITE, entry->page_count))
            entry->access = CLOSED;
    }
    return ERR_NONE;
}

int tier_unprotect(struct tier *tier)
{
    for (struct allocation *entry = tier->allocations; entry; entry = entry->next) {
        if (entry->begin == 0 || entry->access == OPEN || entry->apart || entry->excepted)
            continue;
        memset(entry->wanted, READ_WRITE, entry->page_count);
        TRY(apply_protection(tier, entry));
        entry->access = OPEN;
    }
    return ERR_NONE;
}

void tier_except(struct tier *tier, const void *address)
{
    for (struct allocation *entry = tier->allocations; entry; entry = entry->next)
        if (entry->begin != 0 && entry->address == address) {
            entry->excepted = true;
            entry->access = CLOSED;
        }
}

struct tier_range tier_page_of(const struct tier *tier, const void *address)
{
    for (struct allocation *entry = tier->allocations; entry; entry = entry->next) {
        uintptr_t begin = (uintptr_t)entry->address, at = (uintptr_t)address;
        if (entry->begin == 0 || at < begin || at >= begin + entry->bytes)
            continue;
        size_t page = (at - begin) / tier->page_bytes;
        if (page >= entry->page_count || entry->pages[page] == READ_WRITE)
            break;
        size_t from = page * tier->page_bytes, left = entry->bytes - from;
        return (struct tier_range){entry->address + from, left < tier->page_bytes ? left : tier->page_bytes,
                                   entry->pages[page] == PROT_READ};
    }
    return (struct tier_range){0};
}

int tier_open_page(struct tier *tier, const struct tier_range *page)
{
    const uint8_t *address = page->address;
    for (struct allocation *entry = tier->allocations; entry; entry = entry->next) {
        if (entry->begin == 0 || address < entry->address || address >= entry->address + entry->bytes)
            continue;
        int access = page->writable ? READ_WRITE : PROT_READ;
        if (mprotect((void *)(uintptr_t)address, tier->page_bytes, access))
            return ERR_MEMORY;
        entry->pages[(size_t)(address - entry->address) / tier->page_bytes] = (uint8_t)access;
        entry->access = PARTLY;
        return ERR_NONE;
    }
    return ERR_INTERNAL;
}
