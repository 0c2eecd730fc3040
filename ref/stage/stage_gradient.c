// SPDX-License-Identifier: Apache-2.0
// Gradients of a stage, from backward to the place where they are kept for the update.
#include "ref/stage/stage_internal.h"

#include "base/err.h"
#include "ref/stage/stage_quantized.h"

#include <assert.h>

static void point_gradients(struct stage *stage, int bucket, int layer, void *full)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    for (int i = 0; i < b->param_count; i++)
        stage->gradients[b->params[i]] = (struct model_gradient){
            .data = (char *)full + stage->layout.offset_of[b->params[i]] * element_bytes,
            .accumulate = b->tied && layer != b->high_layer,
        };
}

static int open_gradient_buffers(struct stage *stage, int layer)
{
    int bucket;
    for (int next = 0; stage_next_bucket(stage, layer, &next, &bucket);) {
        if (stage->layout.buckets[bucket].frozen)
            continue;
        void *buffer = buffer_cache_use(&stage->gradient_buffers, bucket);
        if (!buffer)
            buffer = buffer_cache_acquire(&stage->gradient_buffers, bucket);
        point_gradients(stage, bucket, layer, buffer);
    }
    return ERR_NONE;
}

int stage_open_gradients(struct stage *stage, int layer)
{
    if (stage->has_gradient_buffers)
        return open_gradient_buffers(stage, layer);
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    int bucket;
    for (int next = 0; stage_next_bucket(stage, layer, &next, &bucket);) {
        const struct bucket *b = &stage->layout.buckets[bucket];
        if (!b->frozen)
            point_gradients(stage, bucket, layer, stage->full_gradients + b->offset * element_bytes);
    }
    return ERR_NONE;
}

static void *close_gradient_buffer(struct stage *stage, int bucket)
{
    void *buffer = buffer_cache_use(&stage->gradient_buffers, bucket);
    assert(buffer);
    buffer_cache_release(&stage->gradient_buffers, bucket);
    return buffer;
}

void *stage_full_gradient(const struct stage *stage, int bucket)
{
    size_t element_bytes = dtype_bytes(stage->setting.config->accumulation_dtype);
    return stage->full_gradients + stage->layout.buckets[bucket].offset * element_bytes;
}

int stage_keep_gradient(struct stage *stage, int bucket)
{
    if (!stage->has_gradient_buffers)
        return ERR_NONE;
    const struct bucket *b = &stage->layout.buckets[bucket];
    const struct config *config = stage->setting.config;
    return move_cast(&stage->move, TIER_DEVICE, close_gradient_buffer(stage, bucket), config->precision,
                     stage->full_gradients + b->offset * dtype_bytes(config->accumulation_dtype),
                     config->accumulation_dtype, b->count, stage->micro > 0);
}

// On the device: adds the shard, and the replicas' after it. The reduced shard's memory, which nobody reads again,
// serves the sum over replicas if it has the communication dtype.
static int store_on_device(struct stage *stage, int bucket, void *reduced_shard, enum dtype dtype, size_t count,
                           bool add)
{
    const struct config *config = stage->setting.config;
    struct location kept = {TIER_DEVICE, stage->placements[bucket].gradient_shard};
    if (reduced_shard == kept.address)
        return ERR_NONE;
    TRY(move_cast(&stage->move, TIER_DEVICE, reduced_shard, dtype, kept.address, config->accumulation_dtype, count,
                  add));
    if (!add || !stage_sums_replicas(stage))
        return ERR_NONE;
    void *wire = reduced_shard;
    if (dtype != config->communication_dtype && config->accumulation_dtype != config->communication_dtype)
        wire = buffer_cache_acquire(&stage->comm_buffers, bucket);
    return stage_sum_kept_replicas(stage, bucket, kept, wire);
}

int stage_store_gradient(struct stage *stage, int bucket, void *reduced_shard, enum dtype dtype, bool add)
{
    const struct placement *placement = &stage->placements[bucket];
    enum dtype shard_dtype = stage->setting.config->accumulation_dtype;
    size_t count = bucket_shard_real(&stage->layout.buckets[bucket], stage_shard(stage, bucket));
    size_t shard_bytes = count * dtype_bytes(shard_dtype);
    struct location gradient_shard = {placement->gradient_tier, placement->gradient_shard},
                    source = {TIER_DEVICE, reduced_shard};
    if (gradient_shard.tier == TIER_DEVICE)
        return store_on_device(stage, bucket, reduced_shard, dtype, count, add);
    // Bucket by bucket, in the communication dtype, gradients leave for the host beside the rest of backward
    // (ZeRO-Offload, section 4.1).
    struct location arrived_shard = gradient_shard;
    bool unchanged = !add && dtype == shard_dtype;
    if (!unchanged || gradient_shard.tier == TIER_NVME)
        arrived_shard = (struct location){TIER_HOST, buffer_pool_take(&stage->arrived_shards)};
    TRY(move_copy(&stage->move, "gradient", arrived_shard, source, count * dtype_bytes(dtype), NULL));
    struct location summed_shard = arrived_shard;
    if (!unchanged) {
        summed_shard = gradient_shard.tier == TIER_HOST
                           ? gradient_shard
                           : (struct location){TIER_HOST, buffer_pool_take(&stage->summed_shards)};
        if (add && gradient_shard.tier == TIER_NVME)
            TRY(move_copy(&stage->move, "read gradient", summed_shard, gradient_shard, shard_bytes, NULL));
        TRY(move_cast(&stage->move, TIER_HOST, arrived_shard.address, dtype, summed_shard.address, shard_dtype, count,
                      add));
    }
    if (add && stage_sums_replicas(stage))
        TRY(stage_sum_kept_replicas(stage, bucket, summed_shard, arrived_shard.address));
    if (stage_last_micro_step(stage))
        TRY(optimizer_scan(&stage->optimizer, bucket, TIER_HOST, summed_shard.address));
    if (gradient_shard.tier == TIER_NVME)
        TRY(move_copy(&stage->move, "write gradient", gradient_shard, summed_shard, shard_bytes, NULL));
    // Beside the arrival of the next gradients.
    return stage_last_micro_step(stage) ? optimizer_update_early(&stage->optimizer, bucket) : ERR_NONE;
}

int stage_scatter_gradient(struct stage *stage, int bucket)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    const struct config *config = stage->setting.config;
    const struct placement *placement = &stage->placements[bucket];
    const struct exchange *exchange = stage_exchange(stage, bucket);
    enum dtype dtype = config->communication_dtype;
    bool add = stage->micro > 0, sums_replicas = stage_sums_replicas(stage) && !add;
    void *gradient = close_gradient_buffer(stage, bucket), *comm_buffer;
    if (stage_is_in_group_of_one(stage, bucket) && !sums_replicas)
        return stage_store_gradient(stage, bucket, gradient, config->precision, add);
    if (stage_quantizes_gradients(stage))
        return stage_scatter_quantized(stage, bucket, gradient);
    TRY(stage_to_comm_buffer(stage, bucket, gradient, config->precision, &comm_buffer));
    bool direct = !add && dtype == config->accumulation_dtype && placement->gradient_tier == TIER_DEVICE;
    char *reduced_shard =
        direct ? placement->gradient_shard
               : (char *)comm_buffer + bucket_shard_begin(b, comm_rank(exchange->comm)) * dtype_bytes(dtype);
    TRY(exchange_reduce_scatter(exchange, b, comm_buffer, reduced_shard, dtype));
    // With one micro-step the second hop follows the first; with more, all additions to the shard come between.
    if (sums_replicas)
        TRY(stage_sum_replicas(stage, bucket, reduced_shard));
    return direct ? ERR_NONE : stage_store_gradient(stage, bucket, reduced_shard, dtype, add);
}

int stage_to_comm_buffer(struct stage *stage, int bucket, void *full, enum dtype dtype, void **out)
{
    *out = full;
    if (!stage->has_comm_buffers)
        return ERR_NONE;
    *out = buffer_cache_acquire(&stage->comm_buffers, bucket);
    return move_cast(&stage->move, TIER_DEVICE, full, dtype, *out, stage->setting.config->communication_dtype,
                     stage->layout.buckets[bucket].count, false);
}
