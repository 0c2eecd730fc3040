// SPDX-License-Identifier: Apache-2.0
// States that are read before the step is decided (ref/optimizer/read_ahead.c).
#include "ref/formula/formula_internal.h"

#include "ref/optimizer/read_ahead.h"

// The states of the sub-groups that are updated first, as many as there are buffers for.
void formula_move_ahead(const struct terms *t, struct formula *f)
{
    const struct stage *stage = t->stage;
    const struct optimizer *o = &stage->optimizer;
    int left = o->groups_at_once < OPTIMIZER_AHEAD_MAX ? o->groups_at_once : OPTIMIZER_AHEAD_MAX;
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        int bucket = stage->updates.order[i];
        const struct bucket *b = &stage->layout.buckets[bucket];
        uint64_t own = own_elements(t, b);
        uint64_t length = optimizer_sub_group_count(o, bucket);
        if (!optimizer_reads_ahead(o, bucket))
            return;
        for (uint64_t from = 0; from < own && left > 0; from += length, left--) {
            uint64_t count = own - from < length ? own - from : length;
            f->reread.bytes[LANE_NVME_READ][OPERATION_COPY] +=
                moment_count(b) * blocks(count * t->m) + blocks(count * t->k);
        }
    }
}
