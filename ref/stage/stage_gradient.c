// SPDX-License-Identifier: Apache-2.0
// Gradients of a stage: where backward makes them, and what becomes of them.
#include "ref/stage/stage.h"

#include "base/err.h"

static void point_gradients(struct stage *stage, int bundle, int unit, void *whole)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    for (int i = 0; i < b->param_count; i++)
        stage->gradients[b->params[i]] = (struct model_gradient){
            .data = (char *)whole + stage->layout.offset_of[b->params[i]] * element_bytes,
            .accumulate = b->tied && unit != b->high_unit,
        };
}

int stage_open_buckets(struct stage *stage, int unit)
{
    int bundle;
    for (int next = 0; stage_next_bundle(stage, unit, &next, &bundle);) {
        if (stage->layout.bundles[bundle].frozen)
            continue;
        void *bucket = slots_find(&stage->buckets, bundle);
        if (!bucket)
            bucket = slots_take(&stage->buckets, bundle);
        point_gradients(stage, bundle, unit, bucket);
    }
    return ERR_NONE;
}

int stage_open_gradients(struct stage *stage, int unit)
{
    if (stage->has_buckets)
        return stage_open_buckets(stage, unit);
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    int bundle;
    for (int next = 0; stage_next_bundle(stage, unit, &next, &bundle);) {
        const struct bundle *b = &stage->layout.bundles[bundle];
        if (!b->frozen)
            point_gradients(stage, bundle, unit, stage->gradients_whole + b->offset * element_bytes);
    }
    return ERR_NONE;
}

static void *close_bucket(struct stage *stage, int bundle)
{
    void *bucket = slots_find(&stage->buckets, bundle);
    slots_drop(&stage->buckets, bundle);
    return bucket;
}

int stage_keep_gradient(struct stage *stage, int bundle)
{
    if (!stage->has_buckets)
        return ERR_NONE;
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct config *config = stage->setting.config;
    return move_cast(&stage->move, TIER_DEVICE, close_bucket(stage, bundle), config->precision,
                     stage->gradients_whole + b->offset * dtype_bytes(config->accumulation_dtype),
                     config->accumulation_dtype, b->count, stage->micro > 0);
}

int stage_store_gradient(struct stage *stage, int bundle, const void *own, enum dtype dtype, bool add)
{
    const struct place *place = &stage->places[bundle];
    enum dtype kept_dtype = stage->setting.config->accumulation_dtype;
    size_t count = bundle_share_real(&stage->layout.bundles[bundle], stage_share(stage, bundle));
    size_t kept_bytes = count * dtype_bytes(kept_dtype);
    struct spot kept = {place->gradient_tier, place->gradient}, made = {TIER_DEVICE, (void *)(uintptr_t)own};
    if (kept.tier == TIER_DEVICE)
        return own == place->gradient ? ERR_NONE
                                      : move_cast(&stage->move, TIER_DEVICE, own, dtype, place->gradient, kept_dtype,
                                                  count, add);
    // Gradients leave for the host while backward goes on, bucket by bucket, in the communication dtype (ZeRO-Offload,
    // section 4.1).
    struct spot arrived = kept;
    bool as_it_is = !add && dtype == kept_dtype;
    if (!as_it_is || kept.tier == TIER_NVME)
        arrived = (struct spot){TIER_HOST, ring_take(&stage->arrivals)};
    TRY(move_copy(&stage->move, "gradient", arrived, made, count * dtype_bytes(dtype), NULL));
    struct spot sum = arrived;
    if (!as_it_is) {
        sum = kept.tier == TIER_HOST ? kept : (struct spot){TIER_HOST, ring_take(&stage->sums)};
        if (add && kept.tier == TIER_NVME)
            TRY(move_copy(&stage->move, "read gradient", sum, kept, kept_bytes, NULL));
        TRY(move_cast(&stage->move, TIER_HOST, arrived.address, dtype, sum.address, kept_dtype, count, add));
    }
    if (stage_last_micro_step(stage))
        TRY(optimizer_look(&stage->optimizer, bundle, TIER_HOST, sum.address));
    if (kept.tier == TIER_NVME)
        TRY(move_copy(&stage->move, "write gradient", kept, sum, kept_bytes, NULL));
    // Sub-groups are updated while the next gradients arrive.
    bool early = stage_last_micro_step(stage) && optimizer_is_eager(&stage->optimizer);
    return early ? optimizer_update_early(&stage->optimizer, bundle) : ERR_NONE;
}

int stage_scatter_gradient(struct stage *stage, int bundle)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct config *config = stage->setting.config;
    const struct place *place = &stage->places[bundle];
    enum dtype dtype = config->communication_dtype;
    void *wire;
    TRY(stage_to_wire(stage, bundle, close_bucket(stage, bundle), config->precision, &wire));
    bool straight = stage->micro == 0 && dtype == config->accumulation_dtype && place->gradient_tier == TIER_DEVICE;
    TRY(exchange_reduce_scatter(&stage->exchange, b, wire, straight ? place->gradient : NULL, dtype));
    if (straight)
        return ERR_NONE;
    char *own = (char *)wire + bundle_share_begin(b, comm_rank(stage->setting.comm)) * dtype_bytes(dtype);
    return stage_store_gradient(stage, bundle, own, dtype, stage->micro > 0);
}

bool stage_needs_buckets(const struct stage *stage)
{
    const struct config *config = stage->setting.config;
    return config->accumulation > 1 || !config->contiguous_gradients || config->accumulation_dtype != config->precision;
}

int stage_to_wire(struct stage *stage, int bundle, void *whole, enum dtype dtype, void **out)
{
    *out = whole;
    if (!stage->has_wire)
        return ERR_NONE;
    *out = slots_take(&stage->wire, bundle);
    return move_cast(&stage->move, TIER_DEVICE, whole, dtype, *out, stage->setting.config->communication_dtype,
                     stage->layout.bundles[bundle].count, false);
}
