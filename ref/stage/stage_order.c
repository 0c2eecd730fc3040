// SPDX-License-Identifier: Apache-2.0
// The order of updates, that in which the next forward needs the buckets; and the schedule of a step's updates.
#include "ref/stage/stage_internal.h"

#include "base/err.h"
#include "ref/stage/update_schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Appends the buckets that are persistent, or are not, in the order in which the next forward needs them; then those
// that no layer uses.
static void append_updates(struct stage *stage, bool persistent, bool ordered[], int *count)
{
    const struct layout *layout = &stage->layout;
    int bucket;
    for (int layer = 0; layer < stage->setting.model->layer_count; layer++)
        for (int next = 0; stage_next_of_first_layer(stage, layer, &next, &bucket);)
            if (layout->buckets[bucket].persistent == persistent)
                ordered[stage->updates.order[(*count)++] = bucket] = true;
    for (int i = 0; i < layout->trainable_count; i++)
        if (!ordered[i] && layout->buckets[i].persistent == persistent)
            stage->updates.order[(*count)++] = i;
}

int stage_order_updates(struct stage *stage)
{
    const struct layout *layout = &stage->layout;
    bool ordered[layout->trainable_count + 1];
    int count = 0;
    memset(ordered, 0, sizeof ordered);
    stage->updates.order = calloc((size_t)layout->trainable_count + 1, sizeof *stage->updates.order);
    if (!stage->updates.order)
        return err_set(ERR_MEMORY, "no memory for the order of %d updates", layout->trainable_count);
    append_updates(stage, true, ordered, &count);
    stage->updates.persistent_count = count;
    append_updates(stage, false, ordered, &count);
    assert(count == layout->trainable_count);
    return ERR_NONE;
}

bool stage_overlaps_updates(const struct stage *stage)
{
    for (int i = 0; i < stage->layout.trainable_count; i++)
        if (optimizer_tier(&stage->placements[i]) != TIER_DEVICE)
            return true;
    return false;
}

const struct update_schedule *stage_update_schedule(const struct stage *stage)
{
    if (optimizer_delays(&stage->optimizer))
        return &update_delayed;
    if (!stage_overlaps_updates(stage))
        return &update_in_order;
    // A forward that acquires parameters issues what they wait for.
    return stage->operations->acquire ? &update_by_layer : &update_read_ahead;
}
