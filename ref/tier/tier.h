// SPDX-License-Identifier: Apache-2.0
// A tier is where states live. This is one rank's memory: the device and the host; without an accelerator both are
// host memory, each under a budget of its own, with the same accounting and the same refusal (NVMe: tier_nvme.h).
// Every allocation begins on a page of its own between guard pages, or on an accelerator between borders that are
// looked at when it is freed, and is filled with a NaN pattern, so that a byte that is read before it is written shows.
#ifndef ZG_TIER_H
#define ZG_TIER_H

#include "ref/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct accelerator;
struct tier;

// Where the addresses of planned tiers lie: no processor has memory there.
#define TIER_PLANNED_ADDRESS (UINT64_C(1) << 60)
#define TIER_PLANNED_BYTES (UINT64_C(1) << 60)

struct tier_setting {
    uint64_t device_bytes, host_bytes;      // budgets of this rank; 0: no limit
    bool lock_host;                         // host memory stays in memory; what the system refuses to lock is counted
    bool planned;                           // addresses alone, that nobody may touch: what would be held is counted
    const struct accelerator *accelerator;  // whose memory the device's is (accelerator.h); null: the host's
    int device;                             // which of its devices
};

// One rank's memory. The ledger outlives it; null: uncounted. The calling thread enters the tier.
int tier_open(struct ledger *ledger, const struct tier_setting *setting, struct tier **out);

// Frees the tier with all that is still allocated in it. Null-safe.
void tier_close(struct tier *tier);

// The calling thread works on the tier's device from now on: so does every thread that has to do with its memory.
// Null-safe.
int tier_enter(const struct tier *tier);

// bytes of device or host memory of that kind, of which the last padding_bytes are padding and are counted as such.
// bytes == 0 gives a valid address that must not be touched. name appears in refusals and fault messages; it is not
// copied. ERR_BUDGET lists what is held; ERR_MEMORY when the machine has no more.
int tier_allocate(struct tier *tier, enum ledger_tier where, enum ledger_kind kind, const char *name, size_t bytes,
                  size_t padding_bytes, void **out);
void tier_free(struct tier *tier, void *address);

// Bytes of host memory that should be locked and are not, for the limit of locked memory (ulimit -l).
uint64_t tier_unlocked_bytes(const struct tier *tier);

// Fills memory with the NaN pattern: 0x7fc07fc0 is NaN as fp32 and, twice, as bf16; as fp16 it is NaN as well.
void tier_poison(void *address, size_t bytes);

// Page protection for the chaos schedule, of host memory: an accelerator's stays as it is. tier_protect leaves
// accessible only the pages that the ranges touch: those of writable ranges for all access, the others for reading.
// Ranges outside the tier, and of 0 bytes, are passed over; one that reaches beyond its allocation is ERR_INTERNAL.
// tier_unprotect opens everything.
struct tier_range {
    const void *address;
    size_t bytes;
    bool writable;
};
int tier_protect(struct tier *tier, const struct tier_range ranges[], size_t range_count);
int tier_unprotect(struct tier *tier);

// The name of the allocation that holds address, its guard pages included, or NULL; and how far into the allocation
// address is (negative in the guard page before it). Async-signal-safe, from any thread.
const char *tier_name_of(const struct tier *tier, const void *address);
ptrdiff_t tier_offset_of(const struct tier *tier, const void *address);

#endif
