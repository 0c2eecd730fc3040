// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/read_ahead.h"

#include "base/err.h"
#include "ref/optimizer/optimizer_internal.h"
#include "ref/optimizer/overlap.h"

bool optimizer_follows_decision(const struct optimizer *o, int bucket)
{
    const struct placement *placement = &o->placements[bucket];
    bool decides = o->config->check_overflow || o->config->gradient_clipping > 0;
    return optimizer_tier(placement) == TIER_HOST && decides && o->config->delayed_update_start_step == 0 &&
           !placement_is_speculative(o->config, placement);
}

bool optimizer_reads_ahead(const struct optimizer *o, int bucket)
{
    return o->placements[bucket].optimizer_tier == TIER_NVME && o->config->offload_optimizer.pipeline_read &&
           optimizer_follows_decision(o, bucket);
}

int optimizer_read_ahead(struct optimizer *o, int bucket, bool *more)
{
    size_t count = bucket_shard_real(&o->layout->buckets[bucket], o->placements[bucket].shard);
    size_t length = optimizer_sub_group_count(o, bucket);
    const struct adam_states present = {o->placements[bucket].master, o->placements[bucket].exp_avg,
                                        o->placements[bucket].exp_avg_sq};
    int most = o->groups_at_once < OPTIMIZER_AHEAD_MAX ? o->groups_at_once : OPTIMIZER_AHEAD_MAX;
    *more = optimizer_reads_ahead(o, bucket);
    for (size_t from = 0; *more && from < count; from += length) {
        *more = o->ahead_count < most;
        if (!*more)
            break;
        struct states_ahead *ahead = &o->ahead[o->ahead_count++];
        *ahead = (struct states_ahead){.bucket = bucket, .from = from};
        TRY(optimizer_bring_states(o, bucket, from, count - from < length ? count - from : length, &present,
                                   &ahead->states));
    }
    return ERR_NONE;
}

bool optimizer_take_ahead(struct optimizer *o, int bucket, size_t from, struct adam_states *out)
{
    for (int i = 0; i < o->ahead_count; i++)
        if (o->ahead[i].bucket == bucket && o->ahead[i].from == from) {
            *out = o->ahead[i].states;
            o->ahead[i].bucket = -1;
            return true;
        }
    return false;
}

bool optimizer_has_ahead(const struct optimizer *o, int bucket)
{
    for (int i = 0; i < o->ahead_count; i++)
        if (o->ahead[i].bucket == bucket)
            return true;
    return false;
}

void optimizer_drop_ahead(struct optimizer *o)
{
    o->reread += o->ahead_count > 0;
    o->ahead_count = 0;
}
