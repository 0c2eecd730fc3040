// SPDX-License-Identifier: Apache-2.0
// The first updates do not wait for their states to arrive from NVMe: these are read before the step is decided
// (ref/optimizer/read_ahead.h).
#include "ref/stage/update_schedule.h"

#include "base/err.h"
#include "ref/optimizer/read_ahead.h"
#include "ref/stage/stage_internal.h"

// In the order of updates, so that they use the buffers before any other does.
int update_prepare_reads(struct stage *stage)
{
    bool more = true;
    stage->optimizer.ahead_count = 0;
    for (int i = 0; more && i < stage->layout.trainable_count; i++)
        TRY(optimizer_read_ahead(&stage->optimizer, stage->updates.order[i], &more));
    return ERR_NONE;
}

const struct update_schedule update_read_ahead = {.prepare = update_prepare_reads, .decided = stage_update_in_order};
