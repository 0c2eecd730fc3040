// SPDX-License-Identifier: Apache-2.0
// The next forward does not wait for the whole update, but in each layer for the layer's own: forward issues the
// updates, layer by layer. A lane's operations run in the order of issue, and so the parameters of the first layers are
// not read behind the states of all.
#include "ref/stage/update_schedule.h"

#include "base/err.h"
#include "ref/optimizer/read_ahead.h"
#include "ref/stage/stage_internal.h"

// Issues updates until the first `count` of the order are. to_forward: the next reader is forward.
static int update_until(struct stage *stage, int count, bool to_forward)
{
    struct updates *u = &stage->updates;
    u->handed_over += to_forward && u->issued == u->persistent_count;
    while (u->waiting && u->issued < count) {
        int bucket = u->order[u->issued++];
        TRY(stage_update_bucket(stage, bucket, to_forward ? update_hand_over(stage, bucket) : NULL));
    }
    u->waiting &= u->issued < stage->layout.trainable_count;
    return ERR_NONE;
}

// Persistent parameters, which all ranks gather after the update, are updated first.
static int by_layer_decided(struct stage *stage, bool applied)
{
    stage->optimizer.returned += applied;
    stage->updates.waiting = applied;
    stage->updates.issued = 0;
    return update_until(stage, stage->updates.persistent_count, false);
}

static bool is_ahead(const struct stage *stage, int at)
{
    return at < stage->layout.trainable_count && optimizer_has_ahead(&stage->optimizer, stage->updates.order[at]);
}

// Issues the update of the bucket, of those before it in the order, and of the next one, whose states are then read
// while this bucket is written. Where this bucket's states were read before the step was decided, there is little time
// for that: the next update is issued now only if its states were, too, so that only its gradient is left to read.
static int by_layer_before_use(struct stage *stage, int bucket)
{
    int at = 0, count = stage->layout.trainable_count;
    if (!stage->updates.waiting)
        return ERR_NONE;
    while (at < count && stage->updates.order[at] != bucket)
        at++;
    if (at == count)
        return ERR_NONE;
    int last = at + (!is_ahead(stage, at) || is_ahead(stage, at + 1) ? UPDATES_AHEAD : 0);
    return update_until(stage, last < count ? last + 1 : count, true);
}

static int by_layer_finish(struct stage *stage)
{
    return update_until(stage, stage->layout.trainable_count, false);
}

const struct update_schedule update_by_layer = {
    .prepare = update_prepare_reads,
    .decided = by_layer_decided,
    .before_use = by_layer_before_use,
    .finish = by_layer_finish,
};
