// SPDX-License-Identifier: Apache-2.0
// The papers' formulas for bytes moved: between tiers, and among ranks.
#include "ref/formula/formula_internal.h"

#include "ref/recipe/quantize.h"

#include <string.h>

static void copy(struct formula_moved *moved, enum lane lane, uint64_t bytes)
{
    moved->bytes[lane][OPERATION_COPY] += bytes;
}

// A rank's elements of a bucket in one format on NVMe, transferred sub-group by sub-group.
static uint64_t sub_group_blocks(const struct terms *t, int bucket, uint64_t element_bytes)
{
    uint64_t own = own_elements(t, &t->stage->layout.buckets[bucket]), bytes = 0;
    uint64_t length = optimizer_sub_group_count(&t->stage->optimizer, bucket);
    for (uint64_t from = 0; from < own; from += length)
        bytes += blocks((own - from < length ? own - from : length) * element_bytes);
    return bytes;
}

// Bytes of an element of a gradient that leaves the device: c, or p where a shard group of one keeps its micro-steps'
// gradients as they are until it adds those of the replicas.
static uint64_t leaving_bytes(const struct terms *t, const struct bucket *bucket)
{
    bool kept = t->stage->operations->reduces_each_micro_step && t->micro_steps > 1;
    return kept && bucket_ranks(t, bucket) == 1 && t->replicas > 1 ? t->p : t->c;
}

// Gradients on their way to where they are kept. On NVMe g bytes are written, and read again to add to them.
static void gradient_traffic(const struct terms *t, int bucket, uint64_t times, struct formula *f)
{
    const struct placement *placement = &t->stage->placements[bucket];
    uint64_t own = own_elements(t, &t->stage->layout.buckets[bucket]);
    if (placement->gradient_tier == TIER_DEVICE)
        return;
    copy(&f->step, LANE_D2H, times * leaving_bytes(t, &t->stage->layout.buckets[bucket]) * own);
    if (placement->gradient_tier != TIER_NVME)
        return;
    copy(&f->step, LANE_NVME_WRITE, times * blocks(t->g * own));
    copy(&f->step, LANE_NVME_READ, (times - 1) * blocks(t->g * own));
    copy(&f->rescanned, LANE_NVME_READ, sub_group_blocks(t, bucket, t->g));
}

// States on NVMe on their way to Adam and back, with gradients and parameters there.
static void nvme_traffic(const struct terms *t, int bucket, struct formula_moved *moved)
{
    const struct placement *placement = &t->stage->placements[bucket];
    uint64_t moments = moment_count(&t->stage->layout.buckets[bucket]);
    uint64_t states = moments * sub_group_blocks(t, bucket, t->m) + sub_group_blocks(t, bucket, t->k);
    for (enum lane lane = LANE_NVME_READ; placement->optimizer_tier == TIER_NVME && lane <= LANE_NVME_WRITE; lane++)
        copy(moved, lane, states);
    if (placement->optimizer_tier != TIER_DEVICE && placement->gradient_tier == TIER_NVME)
        copy(moved, LANE_NVME_READ, sub_group_blocks(t, bucket, t->g));
    if (!placement_is_shared(t->config, placement) && placement->parameter_tier == TIER_NVME)
        copy(moved, LANE_NVME_WRITE, sub_group_blocks(t, bucket, t->p));
}

// The update, and updated parameters: "2 Psi" to the device for 16-bit parameters there. A speculative update is made
// in every step, and again in one that is clipped.
static void update_traffic(const struct terms *t, int bucket, struct formula *f)
{
    const struct placement *placement = &t->stage->placements[bucket];
    uint64_t own = own_elements(t, &t->stage->layout.buckets[bucket]);
    bool on_host = placement->optimizer_tier != TIER_DEVICE;
    bool speculative = placement_is_speculative(t->config, placement);
    nvme_traffic(t, bucket, speculative ? &f->step : &f->applied);
    if (speculative)
        nvme_traffic(t, bucket, &f->redone);
    if (on_host && placement->gradient_tier == TIER_DEVICE)
        copy(&f->applied, LANE_D2H, t->g * own);
    if (placement_is_shared(t->config, placement))
        return;
    if (on_host && placement->parameter_tier == TIER_DEVICE)
        copy(&f->returned, LANE_H2D, t->p * own);
    if (!on_host && placement->parameter_tier != TIER_DEVICE)
        copy(&f->applied, LANE_D2H, t->p * own);
}

static uint64_t gather_bytes(const struct terms *t, const struct bucket *bucket)
{
    uint64_t own = own_elements(t, bucket);
    bool quantized = t->config->quantized_weights && !bucket->persistent;
    return (bucket_ranks(t, bucket) - 1) *
           (!quantized || bucket->count == 0 ? t->p * own : formula_gathered_bytes(t, own));
}

static uint64_t scatter_bytes(const struct terms *t, const struct bucket *bucket)
{
    return t->c * (bucket->count - own_elements(t, bucket));
}

// An all-reduce of count elements: a reduce-scatter and an all-gather over near-equal shards.
static uint64_t all_reduce_elements(uint64_t count, uint64_t ranks, uint64_t rank)
{
    uint64_t own = count / ranks + (rank < count % ranks);
    return (count - own) + (ranks - 1) * own;
}

// The same for `count` elements in pieces of at most reduce_bucket_size, by one of `ranks` ranks.
static uint64_t all_reduce_bytes(const struct terms *t, uint64_t count, uint64_t ranks, uint64_t rank)
{
    uint64_t limit = t->config->reduce_bucket_size, bytes = 0;
    for (uint64_t left = count, piece; left > 0; left -= piece) {
        piece = limit > 0 && limit < left ? limit : left;
        bytes += t->c * all_reduce_elements(piece, ranks, rank);
    }
    return bytes;
}

// Traffic 2 Psi (N-1)/N: one all-reduce.
void ddp_move(const struct terms *t, struct formula *f)
{
    for (int i = 0; i < t->stage->layout.trainable_count; i++) {
        const struct bucket *bucket = &t->stage->layout.buckets[i];
        formula_send(&f->step, bucket_group(t, bucket), OPERATION_ALL_REDUCE,
                     all_reduce_bytes(t, bucket->count, bucket_ranks(t, bucket), (uint64_t)bucket_rank(t, bucket)));
    }
}

// Between groups, once a step: 2 (Psi/S) (R-1)/R, an all-reduce of the rank's shard over the replicas, the second hop
// of MiCS's gradients.
static void replica_traffic(const struct terms *t, int bucket, struct formula *f)
{
    uint64_t own = own_elements(t, &t->stage->layout.buckets[bucket]);
    if (t->replicas > 1)
        formula_send(&f->step, GROUP_REPLICATE, OPERATION_ALL_REDUCE,
                     all_reduce_bytes(t, own, t->replicas, t->replica));
}

// Traffic 2 Psi (N-1)/N: a reduce-scatter and an all-gather. Of the all-gather, each rank sends the share it has
// updated to all others; of the reduce-scatter, the other ranks' shards.
static void scatter_and_gather(const struct terms *t, uint64_t scatters, struct formula *f)
{
    for (int i = 0; i < t->stage->layout.trainable_count; i++) {
        const struct bucket *bucket = &t->stage->layout.buckets[i];
        enum ledger_group group = bucket_group(t, bucket);
        formula_send(&f->step, group, OPERATION_REDUCE_SCATTER, scatters * scatter_bytes(t, bucket));
        formula_send(&f->returned, group, OPERATION_ALL_GATHER, gather_bytes(t, bucket));
        replica_traffic(t, i, f);
        gradient_traffic(t, i, scatters, f);
        update_traffic(t, i, f);
    }
}

void zero1_move(const struct terms *t, struct formula *f)
{
    scatter_and_gather(t, 1, f);
}

// The same with one micro-step; each further one costs a reduce-scatter.
void zero2_move(const struct terms *t, struct formula *f)
{
    scatter_and_gather(t, t->micro_steps, f);
}

// The contents of a cache of `capacity` buffers, least recently used first.
struct lru {
    int *order, count, capacity;
};

// Uses a bucket. True if it is there; otherwise it is added, and evicts the least recently used if there is no room.
static bool lru_use(struct lru *lru, int bucket)
{
    int position = 0;
    if (lru->capacity == 0)
        return false;
    while (position < lru->count && lru->order[position] != bucket)
        position++;
    bool found = position < lru->count;
    if (!found && lru->count == lru->capacity)
        position = 0;
    if (found || lru->count == lru->capacity) {
        memmove(lru->order + position, lru->order + position + 1,
                (size_t)(lru->count - position - 1) * sizeof lru->order[0]);
        lru->count--;
    }
    lru->order[lru->count++] = bucket;
    return found;
}

// How often each bucket is gathered in one step: once per use, in forward and backward of each micro-step, unless it is
// still gathered because max_reuse_distance allows it and few other buckets were gathered in between. And how often its
// shard is read from NVMe: once per gather, unless the host still has it.
// With hpZ backward gathers from the second copy, which is on the device: second[] counts these.
static void count_gathers(const struct terms *t, uint64_t gathers[], uint64_t second[], uint64_t reads[])
{
    const struct stage *stage = t->stage;
    const struct layout *layout = &stage->layout;
    int layers = stage->setting.model->layer_count;
    uint64_t reuse = t->config->max_reuse_distance, touched = 0;
    uint64_t last[layout->bucket_count];  // elements touched when the bucket was last used
    bool own[layout->bucket_count];       // a tied bucket is in the buffers of its own
    int gathered_order[stage->prefetcher.gathered.buffer_count + 1],
        host_order[stage->prefetcher.host_params.buffer_count + 1];
    struct lru gathered = {gathered_order, 0, stage->prefetcher.gathered.buffer_count};
    struct lru host = {host_order, 0, stage->prefetcher.host_params.buffer_count};
    memset(own, 0, sizeof own);
    memset(last, 0, sizeof last);
    for (uint64_t visit = 0; visit < t->micro_steps * 2 * (uint64_t)layers; visit++) {
        int at = (int)(visit % (2 * (uint64_t)layers)), layer = at < layers ? at : 2 * layers - 1 - at, b;
        for (int next = 0; stage_next_bucket(stage, layer, &next, &b);) {
            if (layout->buckets[b].persistent)
                continue;
            bool tied = layout->buckets[b].tied, near = touched - last[b] < reuse;
            bool full = tied ? own[b] : lru_use(&gathered, b);
            if ((!full || !near) && at >= layers && t->secondary_ranks > 1)
                second[b]++;
            else if (!full || !near) {
                gathers[b]++;
                reads[b] += !(tied ? own[b] : lru_use(&host, b));
            }
            own[b] = true;
            touched += layout->buckets[b].count;
            last[b] = touched;
        }
    }
}

// Parameters on their way to the device: all fetches, of which `reads` begin on NVMe.
static void fetch_traffic(const struct terms *t, int bucket, uint64_t fetches, uint64_t reads,
                          struct formula_moved *moved)
{
    const struct bucket *b = &t->stage->layout.buckets[bucket];
    enum ledger_tier tier = t->stage->placements[bucket].parameter_tier;
    formula_send(moved, bucket_group(t, b), OPERATION_ALL_GATHER, fetches * gather_bytes(t, b));
    if (tier != TIER_DEVICE)
        copy(moved, LANE_H2D, fetches * t->p * own_elements(t, b));
    if (tier == TIER_NVME)
        copy(moved, LANE_NVME_READ, reads * blocks(t->p * own_elements(t, b)));
}

// Traffic 3 Psi (N-1)/N: an all-gather for forward, one for backward, a reduce-scatter. With hpZ the one for backward
// is Psi (P-1)/P, within the group (ZeRO++, section 3.2). With qwZ an all-gather over all ranks has a byte an element,
// Psi/2 (N-1)/N in elements of 16 bits, and the scales (section 3.1).
void zero3_move(const struct terms *t, struct formula *f)
{
    const struct layout *layout = &t->stage->layout;
    uint64_t gathers[layout->bucket_count], second[layout->bucket_count], reads[layout->bucket_count];
    memset(gathers, 0, sizeof gathers);
    memset(second, 0, sizeof second);
    memset(reads, 0, sizeof reads);
    count_gathers(t, gathers, second, reads);
    for (int i = 0; i < layout->bucket_count; i++) {
        const struct bucket *bucket = &layout->buckets[i];
        uint64_t first = gathers[i] > 0 && stage_hands_over(t->stage, i);
        fetch_traffic(t, i, 0, first, &f->unhanded);
        if (!bucket->persistent)
            fetch_traffic(t, i, gathers[i], reads[i] - first, &f->step);
        else if (!bucket->frozen)
            fetch_traffic(t, i, 1, 1, &f->returned);
        if (second[i] > 0)
            formula_send(&f->step, GROUP_SECONDARY, OPERATION_ALL_GATHER,
                         second[i] * (t->secondary_ranks - 1) * t->p * secondary_elements(t, bucket));
        if (bucket->frozen)
            continue;
        if (t->config->quantized_gradients)
            formula_send_hops(t, bucket, f);
        else
            formula_send(&f->step, bucket_group(t, bucket), OPERATION_REDUCE_SCATTER,
                         t->micro_steps * scatter_bytes(t, bucket));
        replica_traffic(t, i, f);
        gradient_traffic(t, i, t->micro_steps, f);
        update_traffic(t, i, f);
    }
}

// The largest gradient of each rank, and unless it overflows its sum of squares: among the shards, or where every rank
// has all gradients but those of others' experts, within an expert group; then among parts.
void formula_move_norm(const struct terms *t, struct formula *f)
{
    const struct stage *stage = t->stage;
    bool replicated = stage->operations->replicates_update;
    const struct {
        enum ledger_group group;
        uint64_t others;
    } exchanges[] = {
        {replicated ? GROUP_EXPERT : t->shard_group, (replicated ? t->experts : t->ranks) - 1},
        {GROUP_MODEL, stage->setting.parts_comm ? (uint64_t)comm_world(stage->setting.parts_comm) - 1 : 0},
    };
    for (int i = 0; i < 2; i++) {
        formula_send(&f->step, exchanges[i].group, OPERATION_ALL_GATHER, exchanges[i].others * sizeof(uint32_t));
        formula_send(&f->applied, exchanges[i].group, OPERATION_ALL_GATHER,
                     exchanges[i].others * sizeof(struct norm_sum));
    }
}

// Four exchanges of capacity x top x tokens in each micro-step and mixture of experts: tokens to their experts and the
// answers back, their gradients to the experts and back. Where forward is computed again, its two are made again.
void formula_move_tokens(const struct terms *t, struct formula *f)
{
    const struct model *model = t->stage->setting.model;
    uint64_t times = t->micro_steps * (t->config->activation_checkpointing ? 6 : 4);
    for (int layer = 0; layer < model->layer_count; layer++)
        formula_send(&f->step, GROUP_EXPERT, OPERATION_ALL_TO_ALL,
                     times * (t->experts - 1) * model_token_bytes(model, layer, t->config->micro_batch));
}
