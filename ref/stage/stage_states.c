// SPDX-License-Identifier: Apache-2.0
// The memory of the optimizer's states: moments and master parameters, and the second copies that the delayed and the
// speculative update keep.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

static enum ledger_tier moment_tier(const struct stage *stage, int bucket)
{
    return stage->placements[bucket].optimizer_tier;
}

// The update of a whole tensor has one moment, its momentum.
static enum ledger_tier square_tier(const struct stage *stage, int bucket)
{
    return stage->layout.buckets[bucket].whole ? TIER_COUNT : moment_tier(stage, bucket);
}

static enum ledger_tier master_tier(const struct stage *stage, int bucket)
{
    const struct placement *placement = &stage->placements[bucket];
    return placement_is_shared(stage->setting.config, placement) ? TIER_COUNT : placement->optimizer_tier;
}

static enum ledger_tier speculated_tier(const struct stage *stage, int bucket)
{
    const struct placement *placement = &stage->placements[bucket];
    return placement_is_speculative(stage->setting.config, placement) ? placement->optimizer_tier : TIER_COUNT;
}

static enum ledger_tier speculated_square_tier(const struct stage *stage, int bucket)
{
    return stage->layout.buckets[bucket].whole ? TIER_COUNT : speculated_tier(stage, bucket);
}

static enum ledger_tier waiting_tier(const struct stage *stage, int bucket)
{
    const struct placement *placement = &stage->placements[bucket];
    const struct config *config = stage->setting.config;
    bool waits = config->delayed_update_start_step > 0 || placement_is_speculative(config, placement);
    return waits ? placement_pending_tier(placement) : TIER_COUNT;
}

// Parameters that forward may not see yet, and the delayed update's second copy of the gradients.
static int allocate_waiting(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    int trainable_count = stage->layout.trainable_count;
    const struct stage_shards gradients = {KIND_GRADIENT, "gradients being used", trainable_count,
                                           dtype_bytes(config->accumulation_dtype), stage_gradient_tier};
    const struct stage_shards pending = {KIND_PARAMETER, "pending parameters", trainable_count,
                                         dtype_bytes(config->precision), waiting_tier};
    void *other[trainable_count + 1], *waiting[trainable_count + 1];
    TRY(stage_allocate_shards(stage, &pending, waiting));
    for (int i = 0; i < trainable_count; i++)
        stage->placements[i].pending = waiting[i];
    if (config->delayed_update_start_step == 0)
        return ERR_NONE;
    TRY(stage_allocate_shards(stage, &gradients, other));
    for (int i = 0; i < trainable_count; i++)
        stage->placements[i].other_gradient_shard = other[i];
    return ERR_NONE;
}

// Moments and master parameters: those that tier_of gives, of every bucket.
typedef enum ledger_tier tier_of(const struct stage *stage, int bucket);
static int allocate_states(struct stage *stage, tier_of *moments, tier_of *squares, tier_of *masters,
                           struct adam_states states[])
{
    int trainable_count = stage->layout.trainable_count;
    const struct config *config = stage->setting.config;
    size_t moment_bytes = dtype_bytes(config->moment_dtype), master_bytes = dtype_bytes(config->master_dtype);
    const struct stage_shards shards[] = {
        {KIND_OPTIMIZER, "exp_avg", trainable_count, moment_bytes, moments},
        {KIND_OPTIMIZER, "exp_avg_sq", trainable_count, moment_bytes, squares},
        {KIND_MASTER, "master parameters", trainable_count, master_bytes, masters},
    };
    void *exp_avg[trainable_count + 1], *exp_avg_sq[trainable_count + 1], *master[trainable_count + 1];
    TRY(stage_allocate_shards(stage, &shards[0], exp_avg));
    TRY(stage_allocate_shards(stage, &shards[1], exp_avg_sq));
    TRY(stage_allocate_shards(stage, &shards[2], master));
    for (int i = 0; i < trainable_count; i++)
        states[i] = (struct adam_states){master[i], exp_avg[i], exp_avg_sq[i]};
    return ERR_NONE;
}

int stage_allocate_optimizer(struct stage *stage)
{
    int trainable_count = stage->layout.trainable_count;
    struct adam_states states[trainable_count + 1], speculated[trainable_count + 1];
    TRY(allocate_states(stage, moment_tier, square_tier, master_tier, states));
    TRY(allocate_states(stage, speculated_tier, speculated_square_tier, speculated_tier, speculated));
    for (int i = 0; i < trainable_count; i++) {
        struct placement *placement = &stage->placements[i];
        placement->exp_avg = states[i].exp_avg;
        placement->exp_avg_sq = states[i].exp_avg_sq;
        placement->master = master_tier(stage, i) == TIER_COUNT ? placement->parameter : states[i].master;
        placement->speculated = speculated[i];
    }
    TRY(allocate_waiting(stage));
    TRY(stage_allocate_optimizer_buffers(stage));
    return stage_allocate_arrived_shards(stage);
}
