// SPDX-License-Identifier: Apache-2.0
// The end of a step: the update of every bucket, and the way of updated parameters to the device and to other ranks.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

#include <assert.h>

int stage_gather_full(struct stage *stage, int bucket)
{
    return exchange_all_gather(stage_exchange(stage, bucket), &stage->layout.buckets[bucket], NULL,
                               stage->placements[bucket].full_params, stage->setting.config->precision);
}

bool stage_updates_beside(const struct stage *stage)
{
    for (int i = 0; i < stage->layout.trainable_count; i++)
        if (optimizer_tier(&stage->placements[i]) != TIER_DEVICE)
            return true;
    return false;
}

int stage_step(struct stage *stage, bool *applied)
{
    int (*publish)(struct stage * stage, int bucket) = stage->operations->publish;
    struct optimizer *o = &stage->optimizer;
    int trainable_count = stage->layout.trainable_count;
    assert(stage_last_micro_step(stage));
    if (stage->operations->invalidate)
        stage->operations->invalidate(stage);
    TRY(optimizer_begin(o, applied));
    for (int i = 0; o->waiting && i < trainable_count; i++) {
        TRY(optimizer_return(o, i));
        if (publish)
            TRY(publish(stage, i));
    }
    // The rest runs beside the next step, whose collectives must not wait for it.
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
