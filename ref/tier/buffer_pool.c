// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/buffer_pool.h"

#include "ref/tier/tier_nvme.h"

#include <assert.h>

int buffer_pool_open(struct tier *tier, enum ledger_tier where, const char *name, size_t bytes, int count,
                     struct buffer_pool *out)
{
    assert(count >= 0);
    const size_t block = TIER_NVME_ALIGNMENT;
    *out = (struct buffer_pool){.buffer_bytes = (bytes + block - 1) / block * block, .count = count};
    void *memory;
    int code = tier_allocate(tier, where, KIND_STAGING, name, (size_t)count * out->buffer_bytes, 0, &memory);
    out->memory = memory;
    return code;
}

void *buffer_pool_take(struct buffer_pool *pool)
{
    assert(pool->count > 0 && pool->next < pool->count);
    char *buffer = pool->memory + (size_t)pool->next * pool->buffer_bytes;
    pool->next = (pool->next + 1) % pool->count;
    return buffer;
}
