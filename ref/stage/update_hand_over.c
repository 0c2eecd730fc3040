// SPDX-License-Identifier: Apache-2.0
// The next forward does not wait for updated parameters to go to NVMe and return: an update that forward issues
// leaves them on the host as well, in a buffer of the prefetcher, where forward finds them.
#include "ref/stage/update_schedule.h"

#include "ref/stage/stage_internal.h"

#include "ref/optimizer/overlap.h"

// The bucket and the UPDATES_AHEAD next ones need a buffer of the prefetcher each.
bool stage_hands_over(const struct stage *stage, int bucket)
{
    const struct placement *placement = &stage->placements[bucket];
    return bucket < stage->layout.trainable_count && placement->parameter_tier == TIER_NVME &&
           !stage->layout.buckets[bucket].persistent && !placement_is_shared(stage->setting.config, placement) &&
           optimizer_follows_decision(&stage->optimizer, bucket) &&
           stage->prefetcher.host_params.buffer_count > UPDATES_AHEAD;
}

void *update_hand_over(struct stage *stage, int bucket)
{
    return stage_hands_over(stage, bucket) ? prefetcher_take_update(&stage->prefetcher, bucket) : NULL;
}
