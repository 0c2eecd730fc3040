// SPDX-License-Identifier: Apache-2.0
// Gradients of a stage, from backward to the place where they are kept for the update.
#include "ref/stage/stage_internal.h"

#include "base/err.h"
#include "ref/optimizer/overlap.h"

struct gradient stage_full_gradient(const struct stage *stage, int bucket)
{
    enum dtype dtype = stage->setting.config->accumulation_dtype;
    size_t offset = stage->layout.buckets[bucket].offset;
    return (struct gradient){stage->full_gradients + offset * dtype_bytes(dtype), dtype};
}

int stage_keep_gradient(struct stage *stage, int bucket)
{
    if (!stage->has_gradient_buffers)
        return ERR_NONE;
    const struct gradient kept = stage_full_gradient(stage, bucket);
    return move_cast(&stage->move, TIER_DEVICE, stage_close_gradient_buffer(stage, bucket),
                     stage->setting.config->precision, kept.data, kept.dtype, stage->layout.buckets[bucket].count,
                     stage->micro > 0);
}

// The rank's shard is added to those of earlier micro-steps, unless full gradients are.
static bool adds_shards(const struct stage *stage)
{
    return stage->operations->reduces_each_micro_step && stage->micro > 0;
}

struct gradient stage_gradient_goal(const struct stage *stage, int bucket)
{
    const struct placement *placement = &stage->placements[bucket];
    bool direct = !adds_shards(stage) && placement->gradient_tier == TIER_DEVICE;
    return (struct gradient){direct ? placement->gradient_shard : NULL, stage->setting.config->accumulation_dtype};
}

// The sum over micro-steps, to which the shard was the last addition, becomes one over all ranks.
static int finish(struct stage *stage, int bucket, struct location sum, struct gradient shard)
{
    const struct exchange *exchange = stage_exchange(stage, bucket);
    if (!adds_shards(stage) || !stage_last_micro_step(stage) || !exchange->verbs->finish)
        return ERR_NONE;
    return exchange->verbs->finish(exchange, bucket, sum, shard);
}

static int store_on_device(struct stage *stage, int bucket, struct gradient shard, size_t count)
{
    struct location kept = {TIER_DEVICE, stage->placements[bucket].gradient_shard};
    if (shard.data == kept.address)
        return ERR_NONE;
    TRY(move_reduced(&stage->move, shard.data, shard.dtype, kept.address, stage->setting.config->accumulation_dtype,
                     count, adds_shards(stage)));
    return finish(stage, bucket, kept, shard);
}

// Bucket by bucket, as they were sent, gradients leave for the host while backward goes on (ZeRO-Offload, section
// 4.1). The host adds them to those of earlier micro-steps: where these are kept or, if that is NVMe, in a buffer.
static int store_offloaded(struct stage *stage, int bucket, struct gradient shard, size_t count)
{
    const struct placement *placement = &stage->placements[bucket];
    enum dtype dtype = stage->setting.config->accumulation_dtype;
    bool last = stage_last_micro_step(stage), add = adds_shards(stage), as_it_is = !add && shard.dtype == dtype;
    struct location kept = {placement->gradient_tier, placement->gradient_shard}, sum = kept, arrived;
    if (kept.tier == TIER_NVME)
        sum = (struct location){TIER_HOST, buffer_pool_take(as_it_is ? &stage->arrived_shards : &stage->summed_shards)};
    arrived = as_it_is ? sum : (struct location){TIER_HOST, buffer_pool_take(&stage->arrived_shards)};
    TRY(move_copy(&stage->move, "gradient", arrived, (struct location){TIER_DEVICE, shard.data},
                  count * dtype_bytes(shard.dtype), NULL));
    if (add && kept.tier == TIER_NVME)
        TRY(move_copy(&stage->move, "read gradient", sum, kept, count * dtype_bytes(dtype), NULL));
    if (!as_it_is)
        TRY(move_cast(&stage->move, TIER_HOST, arrived.address, shard.dtype, sum.address, dtype, count, add));
    TRY(finish(stage, bucket, sum, (struct gradient){arrived.address, shard.dtype}));
    if (last)
        TRY(optimizer_scan(&stage->optimizer, bucket, TIER_HOST, sum.address));
    if (kept.tier == TIER_NVME)
        TRY(move_copy(&stage->move, "write gradient", kept, sum, count * dtype_bytes(dtype), NULL));
    // The update overlaps with the transfer of the next bucket's gradients.
    return last ? optimizer_update_early(&stage->optimizer, bucket) : ERR_NONE;
}

int stage_store_gradient(struct stage *stage, int bucket, struct gradient shard)
{
    size_t count = bucket_shard_real(&stage->layout.buckets[bucket], stage_shard(stage, bucket));
    bool offloaded = stage->placements[bucket].gradient_tier != TIER_DEVICE;
    return (offloaded ? store_offloaded : store_on_device)(stage, bucket, shard, count);
}

int stage_scatter_gradient(struct stage *stage, int bucket)
{
    const struct exchange *exchange = stage_exchange(stage, bucket);
    struct gradient gradient = {stage_close_gradient_buffer(stage, bucket), stage->setting.config->precision};
    TRY(exchange->verbs->reduce_scatter(exchange, bucket, &gradient, stage_gradient_goal(stage, bucket)));
    return stage_store_gradient(stage, bucket, gradient);
}
