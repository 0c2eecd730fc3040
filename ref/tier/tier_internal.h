// SPDX-License-Identifier: Apache-2.0
// A tier and its allocations, shared by tier.c (allocation and budgets), tier_addresses.c (where they lie),
// tier_protect.c (page protection) and tier_apart.c (memory of accelerators).
#pragma once

#include "ref/tier/tier.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum { READ_WRITE = PROT_READ | PROT_WRITE };

// Entries are added and reused but never unlinked before the tier closes, and the fields that tier_name_of reads are
// atomic, so that a signal handler may walk the list at any moment.
struct allocation {
    struct allocation *next;
    _Atomic uintptr_t begin;  // with the guard pages; 0: not in use
    _Atomic uintptr_t end;
    const char *_Atomic name;
    uint8_t *address;
    size_t bytes;
    size_t padding_bytes;
    enum ledger_tier where;
    enum ledger_kind kind;
    enum { OPEN, PARTLY, CLOSED } access;  // to the pages: all, some, none
    bool apart;                            // in an accelerator's memory
    bool shared;                           // by tier_share: not counted
    bool locked;                           // in host memory, pinned by the accelerator
    bool excepted;                         // by tier_except: access is CLOSED, as if nothing could be done about it
    struct stretch *stretch;               // of the tier, in which it lies; null: none
    size_t page_count;
    uint8_t *pages;   // protection of each page as the kernel has it
    uint8_t *wanted;  // protection that apply_protection gives it
};

struct tier {
    struct ledger *ledger;
    struct ledger own;                  // replaces a null ledger, because the budget needs the counts
    uint64_t budget_bytes[TIER_COUNT];  // 0: no limit
    bool lock_host, planned;
    const struct accelerator *accelerator;  // null: none
    int device;
    uintptr_t next_address;  // of a planned tier
    uint64_t unlocked_bytes;
    size_t page_bytes;
    struct allocation *_Atomic allocations;
    struct stretch *stretches;
};

// Reserves pages without access for data and a guard page on each side of it, so that the data is aligned. Returns the
// first guard page; null: the machine has no more addresses. A small one lies in a stretch, which aligns to pages.
char *tier_take_addresses(struct tier *tier, size_t data_bytes, size_t alignment, struct stretch **stretch);

// The memory is returned, and the pages are without access, if they are there at all.
void tier_give_addresses(struct tier *tier, char *begin, char *end, struct stretch *stretch);

// Ends all stretches, whatever they hold.
void tier_end_stretches(struct tier *tier);

// A tier's allocations in an accelerator's memory. Each lies between two borders that hold the NaN pattern
// (tier_poison.h) until a write out of bounds changes it.

struct accelerator;

// Allocates bytes on the calling thread's device, claims them for the accelerator and fills them with the NaN pattern.
// *begin and *end enclose the borders. bytes == 0 gives an address that must not be accessed. ERR_MEMORY: the device is
// out of memory.
int apart_allocate(const struct accelerator *accelerator, const char *name, size_t bytes, uint8_t **out,
                   uintptr_t *begin, uintptr_t *end);

// Returns false if a border has changed. Returns true if the device has failed, because the borders cannot be read.
bool apart_release(const struct accelerator *accelerator, uint8_t *address, size_t bytes);
