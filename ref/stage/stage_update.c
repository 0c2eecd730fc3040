// SPDX-License-Identifier: Apache-2.0
// The end of a step: it is decided, and every bucket is updated in order and published (ZeRO-1 and 2: all-gathered).
// This is the plain schedule; others make the same updates at other times (update_schedule.h).
#include "ref/stage/stage_internal.h"

#include "base/err.h"
#include "ref/stage/update_schedule.h"

int stage_gather_full(struct stage *stage, int bucket)
{
    const struct exchange *exchange = stage_exchange(stage, bucket);
    return exchange->verbs->all_gather(exchange, bucket, NULL, stage->placements[bucket].full_params,
                                       stage->setting.config->precision);
}

int stage_update_bucket(struct stage *stage, int bucket, void *shard)
{
    executor_set_bucket(stage->setting.executor, bucket);
    TRY(optimizer_update(&stage->optimizer, bucket, shard));
    stage->optimizer.updated[bucket] = false;
    return stage->operations->publish ? stage->operations->publish(stage, bucket) : ERR_NONE;
}

int stage_update_in_order(struct stage *stage, bool applied)
{
    stage->optimizer.returned += applied;
    for (int i = 0; applied && i < stage->layout.trainable_count; i++)
        TRY(stage_update_bucket(stage, stage->updates.order[i], NULL));
    return ERR_NONE;
}

const struct update_schedule update_in_order = {.decided = stage_update_in_order};

int stage_update(struct stage *stage, bool *applied)
{
    const struct update_schedule *schedule = stage->updates.schedule = stage_update_schedule(stage);
    if (schedule->prepare)
        TRY(schedule->prepare(stage));
    TRY(optimizer_begin(&stage->optimizer, applied));
    return schedule->decided(stage, *applied);
}

int stage_update_before_use(struct stage *stage, int bucket)
{
    const struct update_schedule *schedule = stage->updates.schedule;
    return schedule && schedule->before_use ? schedule->before_use(stage, bucket) : ERR_NONE;
}

int stage_end_update(struct stage *stage)
{
    const struct update_schedule *schedule = stage->updates.schedule;
    return schedule && schedule->finish ? schedule->finish(stage) : ERR_NONE;
}
