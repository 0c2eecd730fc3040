// SPDX-License-Identifier: Apache-2.0
// What moves between tiers, and conversions within one, as operations: device to host (d2h), host to device (h2d), host
// to NVMe and back. Where no GPU is, device and host are both memory, and the copies are real. Bytes are counted by
// lane.
#ifndef ZG_MOVE_H
#define ZG_MOVE_H

#include "ref/arithmetic/dtype.h"
#include "ref/executor/executor.h"
#include "ref/ledger/ledger.h"
#include "ref/tier/tier_nvme.h"

#include <stdbool.h>
#include <stddef.h>

struct move {
    struct executor *executor;
    struct ledger *ledger;
    struct tier_nvme *nvme;  // null where nothing is on NVMe
};

// A location in a tier.
struct location {
    enum ledger_tier tier;
    void *address;
};

// to = from. One of the two is on the host, or both are in one memory tier. What goes to NVMe or comes from there is
// rounded up to its alignment, in memory as well. also: one more span that orders the copy; null: none.
int move_copy(const struct move *move, const char *name, struct location to, struct location from, size_t bytes,
              const struct executor_span *also);

// Bytes that a copy of `bytes` moves between those tiers.
size_t move_bytes(enum ledger_tier to, enum ledger_tier from, size_t bytes);

// to[count] = from[count], or to += from, in one memory tier: on the compute lane of the device, or the host's. The
// value is rounded to the narrower format; one of two different formats is fp32, unless it is added.
int move_cast(const struct move *move, enum ledger_tier tier, const void *from, enum dtype from_dtype, void *to,
              enum dtype to_dtype, size_t count, bool add);

#endif
