// SPDX-License-Identifier: Apache-2.0
// The staging memory of stages: buffers for values on their way.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

// The buffers that one sub-group needs for states on their way through the host, and through the device.
static void count_buffers(const struct stage *stage, size_t *host, size_t *device)
{
    const struct config *config = stage->setting.config;
    bool delays = config->delayed_update_start_step > 0;
    *host = *device = 0;
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        const struct placement *placement = &stage->placements[i];
        bool waits = delays || placement_is_speculative(config, placement);
        enum ledger_tier target = waits ? placement_pending_tier(placement) : placement->parameter_tier;
        bool copies = !placement_is_shared(config, placement);
        size_t of_host = 0;
        if (optimizer_tier(placement) == TIER_DEVICE) {
            *device = copies && target != TIER_DEVICE ? 2 : *device;
            of_host = copies && target == TIER_NVME ? 1 : 0;
        } else {
            // Updates that are not delayed yet, or made again, go straight to the device.
            bool direct = target == TIER_HOST && placement->parameter_tier != TIER_DEVICE;
            of_host = (placement->optimizer_tier == TIER_NVME ? 3u : 0u) +
                      (placement->gradient_tier != TIER_HOST ? 1u : 0u) + (copies && !direct ? 1u : 0u);
        }
        *host = of_host > *host ? of_host : *host;
    }
}

int stage_allocate_optimizer_buffers(struct stage *stage)
{
    struct optimizer *o = &stage->optimizer;
    size_t host, device, given = stage->setting.config->offload_optimizer.buffer_count;
    count_buffers(stage, &host, &device);
    if (host > 0 && given < host)
        return err_set(ERR_USAGE,
                       "zero_optimization.offload_optimizer.buffer_count is %zu, expected at least %zu, the "
                       "number of host buffers that the update of one sub-group needs",
                       given, host);
    o->groups_at_once = host > 0 ? (int)(given / host) : 0;
    TRY(buffer_pool_open(stage->setting.tier, TIER_HOST, "optimizer buffers", optimizer_buffer_bytes(o),
                         host > 0 ? (int)given : 0, &o->host_buffers));
    for (enum ledger_tier tier = TIER_DEVICE; tier <= TIER_HOST; tier++) {
        size_t bytes = optimizer_scratch_bytes(o, tier);
        TRY(buffer_pool_open(stage->setting.tier, tier, "scratch of whole updates", bytes, bytes > 0,
                             &o->scratch[tier]));
    }
    return buffer_pool_open(stage->setting.tier, TIER_DEVICE, "updated parameters", optimizer_buffer_bytes(o),
                            (int)device, &o->device_buffers);
}

// Buffers for gradients that are accumulated on the host, or pass it on their way to NVMe.
int stage_allocate_arrived_shards(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    bool changes = config->communication_dtype != config->accumulation_dtype ||
                   (stage->operations->reduces_each_micro_step && config->accumulation > 1);
    size_t largest = 0;
    size_t element_bytes = 0;
    bool arrive = false, add = false;
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        size_t bytes = groups_shard_element_bytes(&stage->groups, i);
        element_bytes = bytes > element_bytes ? bytes : element_bytes;
        enum ledger_tier tier = stage->placements[i].gradient_tier;
        arrive |= tier == TIER_NVME || (tier == TIER_HOST && changes);
        add |= tier == TIER_NVME && changes;
        if (stage->layout.buckets[i].shard_elements > largest)
            largest = stage->layout.buckets[i].shard_elements;
    }
    int count = config->overlap_comm ? 2 : 1;
    TRY(buffer_pool_open(stage->setting.tier, TIER_HOST, "arriving gradients", largest * element_bytes,
                         arrive ? count : 0, &stage->arrived_shards));
    return buffer_pool_open(stage->setting.tier, TIER_HOST, "gradients being added",
                            largest * dtype_bytes(config->accumulation_dtype), add ? count : 0, &stage->summed_shards);
}

// Backward can make a full gradient where it is kept if nothing is added to it or converted.
static bool makes_gradients_in_place(const struct stage *stage)
{
    const struct config *config = stage->setting.config;
    return !stage->operations->reduces_each_micro_step && config->accumulation == 1 && config->contiguous_gradients &&
           config->accumulation_dtype == config->precision;
}

static int allocate_gradient_buffers(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    const struct buffer_cache_rule rule = {
        .bucket_count = stage->layout.trainable_count,
        .element_bytes = dtype_bytes(config->precision),
        .where = TIER_DEVICE,
        .name = "gradient buffers",
    };
    int count = buffer_cache_least(&stage->layout, &rule, stage->setting.model->layer_count);
    stage->has_gradient_buffers = true;
    if (config->overlap_comm)
        count *= 2;  // one set is filled while the other is sent
    return buffer_cache_open(&stage->layout, &rule, count, stage->setting.tier, &stage->gradient_buffers);
}

int stage_allocate_gradient_buffers(struct stage *stage)
{
    if (!makes_gradients_in_place(stage))
        TRY(allocate_gradient_buffers(stage));
    return groups_allocate_buffers(&stage->groups);
}
