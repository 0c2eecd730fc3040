// SPDX-License-Identifier: Apache-2.0
// The end of a step: the update of every bucket, and the way of updated parameters to the device and to other ranks.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

#include <assert.h>
#include <string.h>

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

static int update_bucket(struct stage *stage, int bucket)
{
    struct placement *placement = &stage->placements[bucket];
    struct optimizer *o = &stage->optimizer;
    TRY(optimizer_update(o, bucket));
    o->updated[bucket] = false;
    if (!o->delays)
        return stage->operations->publish ? stage->operations->publish(stage, bucket) : ERR_NONE;
    void *used = placement->gradient_shard;
    placement->gradient_shard = placement->other_gradient_shard;
    placement->other_gradient_shard = used;
    return ERR_NONE;
}

// In the order in which the next forward needs the buckets; then those that no layer uses.
static int update_all(struct stage *stage)
{
    int trainable_count = stage->layout.trainable_count, bucket;
    bool updated[trainable_count + 1];
    memset(updated, 0, sizeof updated);
    for (int layer = 0; layer < stage->setting.model->layer_count; layer++)
        for (int next = 0; stage_next_of_first_layer(stage, layer, &next, &bucket);) {
            TRY(update_bucket(stage, bucket));
            updated[bucket] = true;
        }
    for (int i = 0; i < trainable_count; i++)
        if (!updated[i])
            TRY(update_bucket(stage, i));
    return ERR_NONE;
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
    if (*applied)
        TRY(update_all(stage));
    o->waiting = *applied && o->delays;
    o->returned += *applied && !o->delays;
    return ERR_NONE;
}
