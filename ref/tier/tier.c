// SPDX-License-Identifier: Apache-2.0
// One rank's memory: anonymous mappings under a budget for each tier. Budgets limit the bytes that the ledger counts,
// not the pages behind them.
#include "ref/tier/tier_internal.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "base/size.h"
#include "ref/tier/tier_poison.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

int tier_open(struct ledger *ledger, const struct tier_setting *setting, struct tier **out)
{
    struct tier *tier = calloc(1, sizeof *tier);
    if (!tier)
        return err_set(ERR_MEMORY, "out of memory for a tier's bookkeeping");
    tier->ledger = ledger ? ledger : &tier->own;
    tier->budget_bytes[TIER_DEVICE] = setting->device_bytes;
    tier->budget_bytes[TIER_HOST] = setting->host_bytes;
    tier->lock_host = setting->lock_host;
    tier->planned = setting->planned;
    tier->accelerator = setting->planned ? NULL : setting->accelerator;
    tier->device = setting->device;
    tier->next_address = TIER_PLANNED_ADDRESS;
    tier->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    int code = tier_enter(tier);
    if (code != ERR_NONE) {
        free(tier);
        return code;
    }
    *out = tier;
    return ERR_NONE;
}

int tier_enter(const struct tier *tier)
{
    return tier && tier->accelerator ? tier->accelerator->enter(tier->device) : ERR_NONE;
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int refuse(const struct tier *tier, enum ledger_tier where, const char *name, uint64_t bytes,
                  uint64_t held_bytes)
{
    static const char *const advice[] = {
        [TIER_DEVICE] = "raise --device-memory, use more ranks, a stage that shards more, or offload",
        [TIER_HOST] = "raise --host-memory, use more ranks, or offload to NVMe",
    };
    char wanted[SIZE_TEXT_BYTES], budget[SIZE_TEXT_BYTES], held[SIZE_TEXT_BYTES], missing[SIZE_TEXT_BYTES];
    char kinds[LEDGER_HELD_TEXT_BYTES];
    return err_set(ERR_BUDGET, "%s memory: %s for \"%s\" does not fit: %s budget, %s held%s, %s short; %s",
                   ledger_tier_name(where), size_short_text(bytes, wanted), name,
                   size_short_text(tier->budget_bytes[where], budget), size_short_text(held_bytes, held),
                   ledger_held_text(tier->ledger, where, kinds),
                   size_short_text(bytes + held_bytes - tier->budget_bytes[where], missing), advice[where]);
}

// Pins the pages, because transfers to a device and to disks need pages that stay in memory. Where an accelerator
// refuses, they may still stay in memory, but it copies them as pageable memory: they count as not locked.
static void lock_pages(struct tier *tier, struct allocation *allocation, void *data, size_t bytes)
{
    if (tier->accelerator)
        allocation->locked = tier->accelerator->lock(data, bytes) == ERR_NONE;
    bool locked = allocation->locked || mlock(data, bytes) == 0;
    if (!locked || (tier->accelerator && !allocation->locked))
        tier->unlocked_bytes += bytes;
}

// Another thread may look for the allocation as soon as it begins.
static void place(struct allocation *allocation, void *address, uintptr_t begin, uintptr_t end, const char *name,
                  bool open)
{
    allocation->address = address;
    allocation->access = open ? OPEN : CLOSED;
    allocation->name = name;
    allocation->end = end;
    allocation->begin = begin;
}

// Reserves addresses that no memory backs, between two guard pages.
static int plan_pages(struct tier *tier, struct allocation *allocation, const char *name, size_t bytes)
{
    const size_t page = tier->page_bytes;
    if (bytes > TIER_PLANNED_BYTES - 3 * page - (tier->next_address - TIER_PLANNED_ADDRESS))
        return err_set(ERR_MEMORY, "plan: %zu bytes for \"%s\" exceed the planned address range", bytes, name);
    uintptr_t begin = tier->next_address, end = begin + round_up(bytes, page) + 2 * page;
    tier->next_address = end;
    place(allocation, (uint8_t *)(begin + page), begin, end, name, false);
    return ERR_NONE;
}

// Maps `bytes`, rounded up to pages, between two guard pages.
static int map_pages(struct tier *tier, struct allocation *allocation, enum ledger_tier where, const char *name,
                     size_t bytes)
{
    size_t page = tier->page_bytes, data_bytes = round_up(bytes, page);
    size_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : page;
    char *begin = bytes > SIZE_MAX / 2 ? NULL : tier_take_addresses(tier, data_bytes, alignment, &allocation->stretch);
    if (!begin)
        return err_set(ERR_MEMORY, "%s memory: the machine has no %zu bytes for \"%s\"", ledger_tier_name(where), bytes,
                       name);
    char *data = begin + page, *end = data + data_bytes + page;
    size_t page_count = data_bytes / page;
    uint8_t *pages = malloc(2 * page_count + 1);
    if (!pages || (page_count > 0 && mprotect(data, data_bytes, READ_WRITE))) {
        free(pages);
        tier_give_addresses(tier, begin, end, allocation->stretch);
        return err_set(ERR_MEMORY, "%s memory: the machine has no %zu bytes for \"%s\"", ledger_tier_name(where), bytes,
                       name);
    }
    // Without huge pages an optimizer step spends its time on address translation. Refusal does no harm.
    if (bytes >= HUGE_PAGE_BYTES && page_count > 0)
        madvise(data, data_bytes, MADV_HUGEPAGE);
    memset(pages, READ_WRITE, page_count);
    size_t zeros = allocation->shared ? bytes : 0;  // as fresh pages have, untouched
    tier_poison(data + zeros, page_count * page - zeros);
    if (where == TIER_HOST && tier->lock_host && !allocation->shared && page_count > 0)
        lock_pages(tier, allocation, data, data_bytes);

    allocation->page_count = page_count;
    allocation->pages = pages;
    allocation->wanted = pages + page_count;
    place(allocation, data, (uintptr_t)begin, (uintptr_t)end, name, true);
    return ERR_NONE;
}

// Allocates in the accelerator's memory, which has no page protection.
static int allocate_apart(struct tier *tier, struct allocation *allocation, const char *name, size_t bytes)
{
    uintptr_t begin, end;
    TRY(apart_allocate(tier->accelerator, name, bytes, &allocation->address, &begin, &end));
    allocation->apart = true;
    place(allocation, allocation->address, begin, end, name, false);
    return ERR_NONE;
}

// Returns an entry of the list that is not in use; adds one if there is none.
static struct allocation *free_entry(struct tier *tier)
{
    for (struct allocation *entry = tier->allocations; entry; entry = entry->next)
        if (entry->begin == 0) {
            entry->apart = entry->shared = entry->locked = entry->excepted = false;
            entry->page_count = 0;
            return entry;
        }
    struct allocation *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->next = tier->allocations;
    tier->allocations = entry;
    return entry;
}

int tier_allocate(struct tier *tier, enum ledger_tier where, enum ledger_kind kind, const char *name, size_t bytes,
                  size_t padding_bytes, void **out)
{
    assert(tier && name && padding_bytes <= bytes && (where == TIER_DEVICE || where == TIER_HOST));
    assert((unsigned)kind < KIND_COUNT && kind != KIND_PADDING);
    uint64_t held_bytes = tier->ledger->tier_bytes[where], budget_bytes = tier->budget_bytes[where];
    if (budget_bytes != 0 && (held_bytes > budget_bytes || bytes > budget_bytes - held_bytes))
        return refuse(tier, where, name, bytes, held_bytes);
    struct allocation *allocation = free_entry(tier);
    if (!allocation)
        return err_set(ERR_MEMORY, "out of memory for a tier's bookkeeping");
    if (tier->planned)
        TRY(plan_pages(tier, allocation, name, bytes));
    else if (where == TIER_DEVICE && tier->accelerator)
        TRY(allocate_apart(tier, allocation, name, bytes));
    else
        TRY(map_pages(tier, allocation, where, name, bytes));
    allocation->where = where;
    allocation->bytes = bytes;
    allocation->padding_bytes = padding_bytes;
    allocation->kind = kind;
    ledger_hold(tier->ledger, where, kind, bytes - padding_bytes);
    ledger_hold(tier->ledger, where, KIND_PADDING, padding_bytes);
    *out = allocation->address;
    return ERR_NONE;
}

int tier_share(struct tier *tier, const char *name, size_t bytes, void **out)
{
    struct allocation *allocation = free_entry(tier);
    if (!allocation)
        return err_set(ERR_MEMORY, "out of memory for a tier's bookkeeping");
    allocation->shared = true;
    TRY(map_pages(tier, allocation, TIER_HOST, name, bytes));
    allocation->where = TIER_HOST;
    allocation->bytes = bytes;
    *out = allocation->address;
    return ERR_NONE;
}

// Returns whether the bytes between the end of the allocation and the guard page still hold the pattern.
static __attribute__((unused)) bool slack_is_untouched(const struct tier *tier, const struct allocation *allocation)
{
    const uint8_t *end = allocation->address + allocation->bytes;
    return tier_is_poison(end, allocation->page_count * tier->page_bytes - allocation->bytes, (uintptr_t)end);
}

// closes: with its tier, which ends its stretches.
static void release(struct tier *tier, struct allocation *allocation, bool closes)
{
    assert(allocation->access != OPEN || slack_is_untouched(tier, allocation));
    uintptr_t begin = allocation->begin, end = allocation->end;
    allocation->begin = 0;
    if (allocation->apart) {
        bool intact = apart_release(tier->accelerator, allocation->address, allocation->bytes);
        assert(intact);
        (void)intact;
    } else if (allocation->pages) {
        if (allocation->locked)
            (void)tier->accelerator->unlock(allocation->address);
        if (!closes || !allocation->stretch)
            tier_give_addresses(tier, (char *)begin, (char *)end, allocation->stretch);
        free(allocation->pages);
        allocation->pages = NULL;
    }
    if (allocation->shared)
        return;
    ledger_drop(tier->ledger, allocation->where, allocation->kind, allocation->bytes - allocation->padding_bytes);
    ledger_drop(tier->ledger, allocation->where, KIND_PADDING, allocation->padding_bytes);
}

uint64_t tier_unlocked_bytes(const struct tier *tier)
{
    return tier->unlocked_bytes;
}

void tier_free(struct tier *tier, void *address)
{
    if (!address)
        return;
    struct allocation *entry = tier->allocations;
    while (entry && (entry->begin == 0 || entry->address != address))
        entry = entry->next;
    assert(entry);
    release(tier, entry, false);
}

void tier_close(struct tier *tier)
{
    if (!tier)
        return;
    for (struct allocation *entry = tier->allocations, *next; entry; entry = next) {
        next = entry->next;
        if (entry->begin != 0)
            release(tier, entry, true);
        free(entry);
    }
    tier_end_stretches(tier);
    free(tier);
}

static const struct allocation *find(const struct tier *tier, const void *address)
{
    for (const struct allocation *entry = tier->allocations; entry; entry = entry->next) {
        // Reads each field once, because another thread may be allocating.
        uintptr_t begin = entry->begin, end = entry->end;
        if (begin != 0 && begin <= (uintptr_t)address && (uintptr_t)address < end)
            return entry;
    }
    return NULL;
}

const char *tier_name_of(const struct tier *tier, const void *address)
{
    const struct allocation *entry = find(tier, address);
    return entry ? entry->name : NULL;
}

ptrdiff_t tier_offset_of(const struct tier *tier, const void *address)
{
    const struct allocation *entry = find(tier, address);
    return entry ? (const uint8_t *)address - entry->address : 0;
}
