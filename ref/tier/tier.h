// SPDX-License-Identifier: Apache-2.0
// The device and host memory of one rank (for NVMe, see tier_nvme.h). Each is a tier with its own budget; without an
// accelerator both are host memory, with the same accounting. Host allocations begin on a page of their own between
// guard pages; allocations on an accelerator lie between borders that tier_free checks. All are filled with a NaN
// pattern (tier_poison.h).
#pragma once

#include "ref/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct accelerator;
struct tier;

// The addresses of planned tiers: no processor has memory there.
#define TIER_PLANNED_ADDRESS (UINT64_C(1) << 60)
#define TIER_PLANNED_BYTES (UINT64_C(1) << 60)

struct tier_setting {
    uint64_t device_bytes, host_bytes;      // budgets of this rank; 0: no limit
    bool lock_host;                         // pin host memory; tier_unlocked_bytes counts what the system refuses to
    bool planned;                           // reserve addresses without memory, for a plan that only counts
    const struct accelerator *accelerator;  // provides the device memory (accelerator.h); null: the host does
    int device;                             // number of the accelerator's device
};

// Opens a rank's tiers; the calling thread enters them. The ledger (null: none) outlives them.
int tier_open(struct ledger *ledger, const struct tier_setting *setting, struct tier **out);

// Frees the tier and all its allocations. Null-safe.
void tier_close(struct tier *tier);

// Selects the tier's device for the calling thread; every thread that uses the device's memory enters first. Null-safe.
int tier_enter(const struct tier *tier);

// Allocates bytes of device or host memory of that kind; the ledger counts the last padding_bytes as padding. bytes ==
// 0 gives a valid address that must not be accessed. name appears in messages; it is not copied. ERR_BUDGET lists the
// allocations held; ERR_MEMORY: the machine is out of memory. tier_free is null-safe.
int tier_allocate(struct tier *tier, enum ledger_tier where, enum ledger_kind kind, const char *name, size_t bytes,
                  size_t padding_bytes, void **out);
void tier_free(struct tier *tier, void *address);

// Memory for numbers that the thread that issues operations shares with them: zeros, on host pages of their own. The
// ledger does not count it, budgets do not limit it, and a planned tier has it, too. Freed with the tier.
int tier_share(struct tier *tier, const char *name, size_t bytes, void **out);

// Bytes of host memory that lock_host asked to pin and that are not: the accelerator refused them, or without one the
// limit of locked memory (ulimit -l).
uint64_t tier_unlocked_bytes(const struct tier *tier);

// Page protection of host memory, for the chaos schedule; accelerators' memory has none. tier_protect leaves only the
// pages that the ranges touch accessible: writable ranges for all access, the others for reading. It ignores ranges
// outside the tier and of 0 bytes; ERR_INTERNAL: a range extends beyond its allocation. tier_unprotect opens all pages.
struct tier_range {
    const void *address;
    size_t bytes;
    bool writable;
};
int tier_protect(struct tier *tier, const struct tier_range ranges[], size_t range_count);
int tier_unprotect(struct tier *tier);

// Excepts an allocation of host memory from both, which then stays accessible: threads that the executor does not know
// use it.
void tier_except(struct tier *tier, const void *address);

// For a handler of faults: the part of the address's page that lies in an allocation, and how it is about to be
// accessed; 0 bytes if tier_protect closed no such page. A page opens for reading first, so a fault on a page that is
// open for reading is a write. tier_open_page opens it for that access. Async-signal-safe, on the thread that protects.
struct tier_range tier_page_of(const struct tier *tier, const void *address);
int tier_open_page(struct tier *tier, const struct tier_range *page);

// Return the name of the allocation that holds address, guard pages included, or null; and the offset of address in
// that allocation, negative in the guard page before it. Async-signal-safe, from any thread.
const char *tier_name_of(const struct tier *tier, const void *address);
ptrdiff_t tier_offset_of(const struct tier *tier, const void *address);
