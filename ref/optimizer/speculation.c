// SPDX-License-Identifier: Apache-2.0
// Adam does not wait until the step is decided. The global norm and the overflow check need every gradient, but most
// steps are neither clipped nor skipped. So a bucket is updated as soon as its gradient is complete, during the rest of
// backward, as if the step were certain: into other places than those of its states. When the decision is known,
//
//   applied, not clipped   the places are exchanged: this is the update (commit)
//   clipped                what was written is forgotten, and the update is made again from the states, with the
//                          coefficient
//   skipped                what was written is forgotten
//
// The states before the step stay as they are until the commit, so that nothing is ever undone by arithmetic: no bit
// differs from an update after the decision. (The speculation-then-validation of
// SuperOffload, arXiv 2509.21271, updates in place and undoes a step by an inverse of Adam, which rounds.) The price is
// room for the states twice, where they are offloaded: on NVMe a second range that costs no transfer, on the host a
// copy of the states in memory.
#include "ref/optimizer/optimizer_internal.h"

#include "base/err.h"
#include "ref/optimizer/overlap.h"
#include "ref/optimizer/update_digest.h"

#include <assert.h>

// No decision is between the gradients and the update.
static bool is_certain(const struct config *config)
{
    return !config->check_overflow && config->gradient_clipping == 0 && config->delayed_update_start_step == 0;
}

int optimizer_update_early(struct optimizer *o, int bucket)
{
    bool certain = is_certain(o->config);
    if (!certain && !placement_is_speculative(o->config, &o->placements[bucket]))
        return ERR_NONE;
    if (!o->began) {
        TRY(optimizer_advance(o, scaler_scale(&o->scaler)));
        o->coefficient = 1.0f;
        o->began = true;
    }
    if (certain)
        return optimizer_update(o, bucket, NULL);
    assert(!o->speculated[bucket]);
    o->speculated[bucket] = true;
    return optimizer_issue_update(o, bucket, true, NULL);
}

static void exchange(void **a, void **b)
{
    void *kept = *a;
    *a = *b;
    *b = kept;
}

int optimizer_commit(struct optimizer *o, int bucket)
{
    struct placement *placement = &o->placements[bucket];
    assert(o->speculated[bucket] && o->coefficient == 1.0f);
    o->speculated[bucket] = false;
    update_digest_commit(o->digests, o->step, bucket);
    exchange(&placement->master, &placement->speculated.master);
    exchange(&placement->exp_avg, &placement->speculated.exp_avg);
    exchange(&placement->exp_avg_sq, &placement->speculated.exp_avg_sq);
    return optimizer_show_pending(o, bucket);
}

bool optimizer_drop(struct optimizer *o)
{
    bool any = false;
    for (int i = 0; i < o->layout->trainable_count; i++) {
        any |= o->speculated[i];
        o->speculated[i] = false;
    }
    return any;
}
