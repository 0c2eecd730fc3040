// SPDX-License-Identifier: Apache-2.0
// What a step changes: parameters that come to the device and to the other ranks, and the update of every bucket.
#include "ref/stage/stage.h"

#include "base/err.h"

int stage_gather_full(struct stage *stage, int bucket)
{
    return exchange_all_gather(&stage->exchange, &stage->layout.buckets[bucket], NULL,
                               stage->placements[bucket].full_params, stage->setting.config->precision);
}

int stage_fetch(struct stage *stage, int bucket, void *full)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    const struct placement *placement = &stage->placements[bucket];
    enum dtype precision = stage->setting.config->precision;
    if (placement->parameter_tier == TIER_DEVICE)
        return exchange_all_gather(&stage->exchange, b, placement->parameter, full, precision);
    int rank = comm_rank(stage->setting.comm);
    size_t bytes = bucket_shard_real(b, rank) * dtype_bytes(precision);
    struct location shard = {TIER_HOST, placement->parameter};
    struct location own = {TIER_DEVICE, (char *)full + bucket_shard_begin(b, rank) * dtype_bytes(precision)};
    if (placement->parameter_tier == TIER_NVME) {
        shard.address = buffer_cache_get(&stage->host_params, bucket);
        bool hit = shard.address;
        stage->host_hits += hit;
        stage->host_misses += !hit;
        if (!hit) {
            shard.address = buffer_cache_acquire(&stage->host_params, bucket);
            TRY(move_copy(&stage->move, "read parameters", shard, (struct location){TIER_NVME, placement->parameter},
                          bytes, NULL));
        }
    }
    TRY(move_copy(&stage->move, "parameters", own, shard, bytes, NULL));
    return exchange_all_gather(&stage->exchange, b, NULL, full, precision);
}

int stage_update(struct stage *stage, int (*publish)(struct stage *stage, int bucket), bool *applied)
{
    struct optimizer *o = &stage->optimizer;
    int trainable_count = stage->layout.trainable_count;
    TRY(optimizer_begin(o, applied));
    if (stage->host_params.layout)
        buffer_cache_clear(&stage->host_params);
    for (int i = 0; o->waiting && i < trainable_count; i++) {
        TRY(optimizer_return(o, i));
        if (publish)
            TRY(publish(stage, i));
    }
    // What follows runs beside the next step, and leaves the collectives to others.
    if (o->delays)
        TRY(executor_wait(stage->setting.executor));
    o->returned += o->waiting;
    o->waiting = false;
    for (int i = 0; *applied && i < trainable_count; i++) {
        struct placement *placement = &stage->placements[i];
        TRY(optimizer_update(o, i));
        if (!o->delays && publish)
            TRY(publish(stage, i));
        o->updated[i] = false;
        if (!o->delays)
            continue;
        void *used = placement->gradient_shard;
        placement->gradient_shard = placement->other_gradient_shard;
        placement->other_gradient_shard = used;
    }
    o->waiting = *applied && o->delays;
    o->returned += *applied && !o->delays;
    return ERR_NONE;
}
