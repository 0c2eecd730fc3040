// SPDX-License-Identifier: Apache-2.0
// The end of a step: the update of every bucket, and the way of updated parameters to the device and to other ranks.
#include "ref/stage/stage_internal.h"

#include "base/err.h"
#include "ref/optimizer/read_ahead.h"

#include <assert.h>

int stage_gather_full(struct stage *stage, int bucket)
{
    const struct exchange *exchange = stage_exchange(stage, bucket);
    return exchange->verbs->all_gather(exchange, bucket, NULL, stage->placements[bucket].full_params,
                                       stage->setting.config->precision);
}

bool stage_updates_beside(const struct stage *stage)
{
    for (int i = 0; i < stage->layout.trainable_count; i++)
        if (optimizer_tier(&stage->placements[i]) != TIER_DEVICE)
            return true;
    return false;
}

// Buckets whose states are read between those of a bucket and its parameters: while the bucket is updated and makes
// its way to NVMe, the lane that reads is not idle. Where the states were read ahead, that way is short, and the next
// bucket leads only if its own were, so that no more than its gradient is read in between.
enum { LEAD = 1 };

// A bucket and those that lead have a buffer of the prefetcher each.
bool stage_hands_over(const struct stage *stage, int bucket)
{
    const struct placement *placement = &stage->placements[bucket];
    return bucket < stage->layout.trainable_count && placement->parameter_tier == TIER_NVME &&
           !stage->layout.buckets[bucket].persistent && !placement_is_shared(stage->setting.config, placement) &&
           optimizer_follows_decision(&stage->optimizer, bucket) && stage->prefetcher.host_params.buffer_count > LEAD;
}

// to_forward: which reads the parameters next.
static int update_bucket(struct stage *stage, int bucket, bool to_forward)
{
    struct placement *placement = &stage->placements[bucket];
    struct optimizer *o = &stage->optimizer;
    bool hands_over = to_forward && stage_hands_over(stage, bucket);
    executor_set_bucket(stage->setting.executor, bucket);
    TRY(optimizer_update(o, bucket, hands_over ? prefetcher_take_update(&stage->prefetcher, bucket) : NULL));
    o->updated[bucket] = false;
    if (!o->delays)
        return stage->operations->publish ? stage->operations->publish(stage, bucket) : ERR_NONE;
    void *used = placement->gradient_shard;
    placement->gradient_shard = placement->other_gradient_shard;
    placement->other_gradient_shard = used;
    return ERR_NONE;
}

// Issues updates until the first `count` of the order are.
static int update_until(struct stage *stage, int count, bool to_forward)
{
    stage->handed_over += to_forward && stage->updates_issued == stage->persistent_count;
    while (stage->updates_waiting && stage->updates_issued < count)
        TRY(update_bucket(stage, stage->update_order[stage->updates_issued++], to_forward));
    stage->updates_waiting &= stage->updates_issued < stage->layout.trainable_count;
    return ERR_NONE;
}

int stage_end_update(struct stage *stage)
{
    return update_until(stage, stage->layout.trainable_count, false);
}

static bool is_ahead(const struct stage *stage, int at)
{
    return at < stage->layout.trainable_count && optimizer_has_ahead(&stage->optimizer, stage->update_order[at]);
}

int stage_update_before_use(struct stage *stage, int bucket)
{
    int at = 0, count = stage->layout.trainable_count;
    if (!stage->updates_waiting)
        return ERR_NONE;
    while (at < count && stage->update_order[at] != bucket)
        at++;
    if (at == count)
        return ERR_NONE;
    int last = at + (!is_ahead(stage, at) || is_ahead(stage, at + 1) ? LEAD : 0);
    return update_until(stage, last < count ? last + 1 : count, true);
}

// In the order of updates, so that they use the buffers before any other does.
static int read_ahead(struct stage *stage)
{
    bool more = true;
    stage->optimizer.ahead_count = 0;
    for (int i = 0; more && i < stage->layout.trainable_count; i++)
        TRY(optimizer_read_ahead(&stage->optimizer, stage->update_order[i], &more));
    return ERR_NONE;
}

int stage_step(struct stage *stage, bool *applied)
{
    int (*publish)(struct stage * stage, int bucket) = stage->operations->publish;
    struct optimizer *o = &stage->optimizer;
    int trainable_count = stage->layout.trainable_count;
    assert(stage_last_micro_step(stage) && !stage->updates_waiting);
    if (stage->operations->invalidate)
        stage->operations->invalidate(stage);
    TRY(read_ahead(stage));
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
    o->waiting = *applied && o->delays;
    o->returned += *applied && !o->delays;
    stage->updates_waiting = *applied;
    stage->updates_issued = 0;
    bool by_layer = stage->operations->acquire && stage_updates_beside(stage) && !o->delays;
    return by_layer ? update_until(stage, stage->persistent_count, false) : stage_end_update(stage);
}
