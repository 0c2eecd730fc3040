// SPDX-License-Identifier: Apache-2.0
// Copies between tiers and conversions within a tier, as operations: device to host (d2h), host to device (h2d), host
// to NVMe and back. Without a GPU, device and host are both memory, and the copies are real. The ledger counts the
// bytes by lane.
#pragma once

#include "ref/arithmetic/dtype.h"
#include "ref/executor/executor.h"
#include "ref/ledger/ledger.h"
#include "ref/tier/tier_nvme.h"

#include <stdbool.h>
#include <stddef.h>

struct move {
    struct executor *executor;
    struct ledger *ledger;
    struct tier_nvme *nvme;  // null if no state is on NVMe
};

// A location in a tier.
struct location {
    enum ledger_tier tier;
    void *address;
};

// Issues to = from. One of the two is on the host, or both are in one memory tier. Copies to or from NVMe are rounded
// up to its alignment, in memory as well. also: one more span that orders the copy; null: none.
int move_copy(const struct move *move, const char *name, struct location to, struct location from, size_t bytes,
              const struct executor_span *also);

// The bytes that a copy of `bytes` moves between these tiers: rounded up for NVMe.
size_t move_bytes(enum ledger_tier to, enum ledger_tier from, size_t bytes);

// Issues to[count] = from[count], or to += from if add is true, in one memory tier: on LANE_COMPUTE for the device, on
// LANE_CPU for the host. Rounds to the format of `to`. Two different formats must include fp32 (ERR_INTERNAL).
int move_cast(const struct move *move, enum ledger_tier tier, const void *from, enum dtype from_dtype, void *to,
              enum dtype to_dtype, size_t count, bool add);

// The same on the device, of what ranks have reduced: an addition is one with is_reduced.
int move_reduced(const struct move *move, const void *from, enum dtype from_dtype, void *to, enum dtype to_dtype,
                 size_t count, bool add);
