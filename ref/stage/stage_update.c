// SPDX-License-Identifier: Apache-2.0
// What a step changes: parameters that come to the device and to the other ranks, and the update of every bundle.
#include "ref/stage/stage.h"

#include "base/err.h"

int stage_gather_whole(struct stage *stage, int bundle)
{
    return exchange_all_gather(&stage->exchange, &stage->layout.bundles[bundle], NULL, stage->places[bundle].whole,
                               stage->setting.config->precision);
}

int stage_fetch(struct stage *stage, int bundle, void *whole)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    if (place->parameter_tier == TIER_DEVICE)
        return exchange_all_gather(&stage->exchange, b, place->parameter, whole, precision);
    int rank = comm_rank(stage->setting.comm);
    size_t bytes = bundle_share_real(b, rank) * dtype_bytes(precision);
    struct spot share = {TIER_HOST, place->parameter};
    struct spot own = {TIER_DEVICE, (char *)whole + bundle_share_begin(b, rank) * dtype_bytes(precision)};
    if (place->parameter_tier == TIER_NVME) {
        share.address = slots_find(&stage->host_params, bundle);
        bool hit = share.address;
        stage->host_hits += hit;
        stage->host_misses += !hit;
        if (!hit) {
            share.address = slots_take(&stage->host_params, bundle);
            TRY(move_copy(&stage->move, "read parameters", share, (struct spot){TIER_NVME, place->parameter}, bytes,
                          NULL));
        }
    }
    TRY(move_copy(&stage->move, "parameters", own, share, bytes, NULL));
    return exchange_all_gather(&stage->exchange, b, NULL, whole, precision);
}

int stage_update(struct stage *stage, int (*publish)(struct stage *stage, int bundle), bool *applied)
{
    struct optimizer *o = &stage->optimizer;
    int trainable_count = stage->layout.trainable_count;
    TRY(optimizer_begin(o, applied));
    if (stage->host_params.layout)
        slots_empty(&stage->host_params);
    for (int i = 0; o->waiting && i < trainable_count; i++) {
        TRY(optimizer_return(o, i));
        if (publish)
            TRY(publish(stage, i));
    }
    // What follows runs beside the next step, and leaves the collectives to others.
    if (o->delays)
        TRY(flow_wait(stage->setting.flow));
    o->returned += o->waiting;
    o->waiting = false;
    for (int i = 0; *applied && i < trainable_count; i++) {
        struct place *place = &stage->places[i];
        TRY(optimizer_update(o, i));
        if (!o->delays && publish)
            TRY(publish(stage, i));
        o->updated[i] = false;
        if (!o->delays)
            continue;
        void *used = place->gradient;
        place->gradient = place->other_gradient;
        place->other_gradient = used;
    }
    o->waiting = *applied && o->delays;
    o->returned += *applied && !o->delays;
    return ERR_NONE;
}
