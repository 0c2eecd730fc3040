// SPDX-License-Identifier: Apache-2.0
// The papers' formulas for bytes held, in their exact form.
#include "ref/formula/formula_internal.h"

// A full bucket on the device, or one rank's shard of it on a tier.
static void hold_full(const struct bucket *bucket, enum ledger_kind kind, uint64_t element_bytes, struct formula *f)
{
    f->held_bytes[TIER_DEVICE][kind] += element_bytes * bucket->count;
    f->held_bytes[TIER_DEVICE][KIND_PADDING] += element_bytes * (bucket->padded_count - bucket->count);
}

static void hold_shard(const struct terms *t, const struct bucket *bucket, enum ledger_tier tier, enum ledger_kind kind,
                       uint64_t element_bytes, struct formula *f)
{
    uint64_t own_bytes = element_bytes * own_elements(t, bucket);
    uint64_t shard_bytes = element_bytes * bucket_shard_room(bucket, own_shard(t, bucket));
    f->held_bytes[tier][kind] += own_bytes;
    f->held_bytes[tier][KIND_PADDING] += (tier == TIER_NVME ? blocks(shard_bytes) : shard_bytes) - own_bytes;
}

static bool delayed(const struct terms *t)
{
    return t->config->delayed_update_start_step > 0;
}

// Optimizer states, "K Psi / N_d", and the second copies of the delayed and of the speculative update.
static void hold_optimizer(const struct terms *t, const struct bucket *bucket, const struct placement *placement,
                           struct formula *f)
{
    for (uint64_t i = 0; i < moment_count(bucket); i++)
        hold_shard(t, bucket, placement->optimizer_tier, KIND_OPTIMIZER, t->m, f);
    if (!placement_is_shared(t->config, placement))
        hold_shard(t, bucket, placement->optimizer_tier, KIND_MASTER, t->k, f);
    if (delayed(t))
        hold_shard(t, bucket, placement->gradient_tier, KIND_GRADIENT, t->g, f);
    if (placement_is_speculative(t->config, placement)) {
        for (uint64_t i = 0; i < moment_count(bucket); i++)
            hold_shard(t, bucket, placement->optimizer_tier, KIND_OPTIMIZER, t->m, f);
        hold_shard(t, bucket, placement->optimizer_tier, KIND_MASTER, t->k, f);
    }
    if (delayed(t) || placement_is_speculative(t->config, placement))
        hold_shard(t, bucket, placement_pending_tier(placement), KIND_PARAMETER, t->p, f);
}

// "(2 + 2 + K) Psi": everything, everywhere.
void ddp_hold(const struct terms *t, const struct bucket *bucket, const struct placement *placement, struct formula *f)
{
    hold_full(bucket, KIND_PARAMETER, t->p, f);
    if (bucket->frozen)
        return;
    hold_full(bucket, KIND_GRADIENT, t->g, f);
    hold_optimizer(t, bucket, placement, f);
}

// "2 Psi + 2 Psi + K Psi / N_d"; offloaded, a shard of the gradients goes to the host as well.
void zero1_hold(const struct terms *t, const struct bucket *bucket, const struct placement *placement,
                struct formula *f)
{
    ddp_hold(t, bucket, placement, f);
    if (!bucket->frozen && placement->gradient_tier != TIER_DEVICE)
        hold_shard(t, bucket, placement->gradient_tier, KIND_GRADIENT, t->g, f);
}

// "2 Psi + (2 + K) Psi / N_d".
void zero2_hold(const struct terms *t, const struct bucket *bucket, const struct placement *placement,
                struct formula *f)
{
    hold_full(bucket, KIND_PARAMETER, t->p, f);
    if (bucket->frozen)
        return;
    hold_shard(t, bucket, placement->gradient_tier, KIND_GRADIENT, t->g, f);
    hold_optimizer(t, bucket, placement, f);
}

// hpZ's second copy of the parameters: p Psi / P (ZeRO++, section 3.2).
static void hold_secondary(const struct terms *t, const struct bucket *bucket, struct formula *f)
{
    uint64_t own = secondary_elements(t, bucket), room = bucket->padded_count / t->secondary_ranks;
    f->held_bytes[TIER_DEVICE][KIND_PARAMETER] += t->p * own;
    f->held_bytes[TIER_DEVICE][KIND_PADDING] += t->p * (room - own);
}

// "(2 + 2 + K) Psi / N_d".
void zero3_hold(const struct terms *t, const struct bucket *bucket, const struct placement *placement,
                struct formula *f)
{
    hold_shard(t, bucket, placement->parameter_tier, KIND_PARAMETER, t->p, f);
    if (bucket->persistent)
        hold_full(bucket, KIND_PARAMETER, t->p, f);
    else if (t->secondary_ranks > 1)
        hold_secondary(t, bucket, f);
    if (bucket->frozen)
        return;
    hold_shard(t, bucket, placement->gradient_tier, KIND_GRADIENT, t->g, f);
    hold_optimizer(t, bucket, placement, f);
}

// Staging: each buffer has room for the largest bucket, and each tied bucket has a buffer of its own.
static void hold_cache(const struct buffer_cache *cache, struct formula *f)
{
    if (!cache->layout)
        return;
    uint64_t bytes = (uint64_t)cache->buffer_count * buffer_cache_largest_bytes(cache->layout, &cache->rule);
    for (int i = 0; i < cache->rule.bucket_count; i++)
        if (cache->layout->buckets[i].tied)
            bytes += buffer_cache_bucket_bytes(cache->layout, &cache->rule, i);
    f->held_bytes[cache->rule.where][KIND_STAGING] += bytes;
}

void formula_hold_staging(const struct stage *stage, struct formula *f)
{
    const struct buffer_pool *host[] = {&stage->arrived_shards, &stage->summed_shards, &stage->optimizer.host_buffers};
    const struct buffer_pool *device[] = {&stage->optimizer.device_buffers, &stage->groups.packed_params,
                                          &stage->groups.packed_gradients};
    for (int tier = TIER_DEVICE; tier <= TIER_HOST; tier++)
        f->held_bytes[tier][KIND_STAGING] +=
            (uint64_t)stage->optimizer.scratch[tier].count * stage->optimizer.scratch[tier].buffer_bytes;
    hold_cache(&stage->gradient_buffers, f);
    hold_cache(&stage->groups.comm_buffers, f);
    hold_cache(&stage->prefetcher.gathered, f);
    hold_cache(&stage->prefetcher.host_params, f);
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++)
        f->held_bytes[TIER_HOST][KIND_STAGING] += (uint64_t)host[i]->count * host[i]->buffer_bytes;
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++)
        f->held_bytes[TIER_DEVICE][KIND_STAGING] += (uint64_t)device[i]->count * device[i]->buffer_bytes;
}
