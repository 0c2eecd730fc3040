// SPDX-License-Identifier: Apache-2.0
// The next forward does not wait for the update at all: it sees the parameters of the step before, and the one after it
// sees these (ZeRO-Offload, section 5.2; ref/oracle/oracle_delay.h defines the values).
#include "ref/stage/update_schedule.h"

#include "base/err.h"
#include "ref/stage/stage_internal.h"

// The next backward makes its gradient while the update reads this one.
static void exchange_gradient_shards(struct placement *placement)
{
    void *used = placement->gradient_shard;
    placement->gradient_shard = placement->other_gradient_shard;
    placement->other_gradient_shard = used;
}

// Shows forward the parameters of the last update.
static int publish_last(struct stage *stage)
{
    int (*publish)(struct stage * stage, int bucket) = stage->operations->publish;
    struct optimizer *o = &stage->optimizer;
    for (int i = 0; o->waiting && i < stage->layout.trainable_count; i++) {
        TRY(optimizer_return(o, i));
        if (publish)
            TRY(publish(stage, i));
    }
    o->returned += o->waiting;
    return ERR_NONE;
}

static int delayed_decided(struct stage *stage, bool applied)
{
    struct optimizer *o = &stage->optimizer;
    TRY(publish_last(stage));
    // The update overlaps the next step, whose collectives must not wait for it.
    TRY(executor_wait(stage->setting.executor));
    o->waiting = applied;
    for (int i = 0; applied && i < stage->layout.trainable_count; i++) {
        int bucket = stage->updates.order[i];
        executor_set_bucket(stage->setting.executor, bucket);
        TRY(optimizer_update(o, bucket, NULL));
        o->updated[bucket] = false;
        exchange_gradient_shards(&stage->placements[bucket]);
    }
    return ERR_NONE;
}

const struct update_schedule update_delayed = {.decided = delayed_decided};
