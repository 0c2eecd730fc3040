// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/ring.h"

#include "ref/tier/tier_nvme.h"

#include <assert.h>

int ring_open(struct tier *tier, enum ledger_tier where, const char *name, size_t bytes, int count, struct ring *out)
{
    const size_t block = TIER_NVME_ALIGNMENT;
    *out = (struct ring){.buffer_bytes = (bytes + block - 1) / block * block, .count = count};
    void *memory;
    int code = tier_allocate(tier, where, KIND_STAGING, name, (size_t)count * out->buffer_bytes, 0, &memory);
    out->memory = memory;
    return code;
}

void *ring_take(struct ring *ring)
{
    assert(ring->count > 0);
    char *buffer = ring->memory + (size_t)ring->next * ring->buffer_bytes;
    ring->next = (ring->next + 1) % ring->count;
    return buffer;
}
