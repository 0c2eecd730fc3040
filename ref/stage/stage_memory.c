// SPDX-License-Identifier: Apache-2.0
// The memory of parameters and gradients, full or in shards, on the tiers that the configuration gives them.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

// With a ratio below 1 the optimizer states of the first buckets, up to that part of all elements, go to the host. The
// others stay on the device.
static void choose_tiers(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    const struct config_offload_optimizer *offload = &config->offload_optimizer;
    double limit = offload->ratio * (double)stage->layout.trainable_shard_elements, count = 0;
    for (int i = 0; i < stage->layout.bucket_count; i++) {
        struct placement *placement = &stage->placements[i];
        bool trainable = i < stage->layout.trainable_count;
        bool offloads = trainable && offload->tier != TIER_DEVICE && count < limit;
        placement->optimizer_tier = offloads ? offload->tier : TIER_DEVICE;
        placement->gradient_tier = offloads ? config->gradient_tier : TIER_DEVICE;
        placement->parameter_tier = config->stage == 3 ? config->offload_param.tier : TIER_DEVICE;
        count += (double)stage->layout.buckets[i].shard_elements;
    }
}

int stage_lay_out(struct stage *stage, struct layout_rule rule)
{
    groups_complete_rule(&stage->groups, &rule);
    TRY(layout_open(stage->setting.model, &rule, &stage->layout));
    TRY(groups_choose(&stage->groups));
    choose_tiers(stage);
    return ERR_NONE;
}

// Elements of the buckets [0, bucket_count) that are padding in a full buffer.
static size_t full_padding(const struct stage *stage, int bucket_count)
{
    size_t padding = 0;
    for (int i = 0; i < bucket_count; i++)
        padding += stage->layout.buckets[i].padded_count - stage->layout.buckets[i].count;
    return padding;
}

static size_t shard_room(const struct stage *stage, int bucket)
{
    return bucket_shard_room(&stage->layout.buckets[bucket], stage_shard(stage, bucket));
}

static size_t shard_padding(const struct stage *stage, int bucket)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    return shard_room(stage, bucket) - bucket_shard_real(b, stage_shard(stage, bucket));
}

// "exp_avg of h.0.ln_1.weight and 11 more", for messages about faults on NVMe. It lives as long as the stage.
static int name_shard(struct stage *stage, const char *state, int bucket, const char **out)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    char **names = realloc(stage->names, (stage->name_count + 1) * sizeof *names), more[32] = "", *name = NULL;
    if (names)
        stage->names = names;
    if (b->param_count > 1)
        snprintf(more, sizeof more, " and %d more", b->param_count - 1);
    if (!names || asprintf(&name, "%s of %s%s", state, stage->setting.model->params[b->params[0]].name, more) < 0)
        return err_set(ERR_MEMORY, "no memory for the name of a shard");
    stage->names[stage->name_count++] = name;
    *out = name;
    return ERR_NONE;
}

int stage_allocate_shards(struct stage *stage, const struct stage_shards *shards, void *addresses[])
{
    size_t bytes[TIER_COUNT] = {0}, padding_bytes[TIER_COUNT] = {0};
    for (int i = 0; i < shards->bucket_count; i++) {
        enum ledger_tier tier = shards->tier_of(stage, i);
        size_t shard_bytes = shard_room(stage, i) * shards->element_bytes;
        addresses[i] = NULL;
        if (tier == TIER_COUNT)
            continue;
        bytes[tier] += shard_bytes;
        padding_bytes[tier] += shard_padding(stage, i) * shards->element_bytes;
        if (tier != TIER_NVME || !stage->setting.nvme)
            continue;
        const char *name = NULL;
        TRY(name_shard(stage, shards->name, i, &name));
        TRY(tier_nvme_allocate(stage->setting.nvme, shards->kind, name, shard_bytes,
                               shard_padding(stage, i) * shards->element_bytes, &addresses[i]));
    }
    for (enum ledger_tier tier = TIER_DEVICE; tier <= TIER_HOST; tier++) {
        char *memory = NULL;
        if (bytes[tier] == 0)
            continue;
        TRY(tier_allocate(stage->setting.tier, tier, shards->kind, shards->name, bytes[tier], padding_bytes[tier],
                          (void **)&memory));
        for (int i = 0; i < shards->bucket_count; i++)
            if (shards->tier_of(stage, i) == tier) {
                addresses[i] = memory;
                memory += shard_room(stage, i) * shards->element_bytes;
            }
    }
    return ERR_NONE;
}

static enum ledger_tier parameter_tier(const struct stage *stage, int bucket)
{
    return stage->placements[bucket].parameter_tier;
}

enum ledger_tier stage_gradient_tier(const struct stage *stage, int bucket)
{
    return stage->placements[bucket].gradient_tier;
}

// Full gradients have no shards of their own, unless Adam runs on another tier.
static enum ledger_tier offloaded_gradient_tier(const struct stage *stage, int bucket)
{
    enum ledger_tier tier = stage->placements[bucket].gradient_tier;
    return tier == TIER_DEVICE ? TIER_COUNT : tier;
}

int stage_open_full_params(struct stage *stage, int shards)
{
    const struct layout_rule rule = {
        .shards = shards,
        .merge_layers = true,
        .bucket_elements = stage->setting.config->reduce_bucket_size,
    };
    TRY(stage_lay_out(stage, rule));
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    char *memory;
    TRY(tier_allocate(stage->setting.tier, TIER_DEVICE, KIND_PARAMETER, "parameters",
                      layout->padded_count * element_bytes, full_padding(stage, layout->bucket_count) * element_bytes,
                      (void **)&memory));
    for (int i = 0; i < layout->bucket_count; i++) {
        const struct bucket *b = &layout->buckets[i];
        char *full = memory + b->offset * element_bytes;
        stage->placements[i].full_params = full;
        stage->placements[i].parameter = full + bucket_shard_begin(b, stage_shard(stage, i)) * element_bytes;
        stage_point_params(stage, i, full);
    }
    return ERR_NONE;
}

static int allocate_persistent(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->precision), count = 0, padding = 0;
    for (int i = 0; i < layout->bucket_count; i++) {
        const struct bucket *b = &layout->buckets[i];
        count += b->persistent ? b->padded_count : 0;
        padding += b->persistent ? b->padded_count - b->count : 0;
    }
    char *memory;
    TRY(tier_allocate(stage->setting.tier, TIER_DEVICE, KIND_PARAMETER, "persistent parameters", count * element_bytes,
                      padding * element_bytes, (void **)&memory));
    for (int i = 0; i < layout->bucket_count; i++) {
        const struct bucket *b = &layout->buckets[i];
        if (!b->persistent)
            continue;
        stage->placements[i].full_params = memory;
        stage_point_params(stage, i, memory);
        memory += b->padded_count * element_bytes;
    }
    return ERR_NONE;
}

int stage_allocate_param_shards(struct stage *stage)
{
    const struct stage_shards shards = {KIND_PARAMETER, "parameter shards", stage->layout.bucket_count,
                                        dtype_bytes(stage->setting.config->precision), parameter_tier};
    void *addresses[shards.bucket_count + 1];
    TRY(stage_allocate_shards(stage, &shards, addresses));
    for (int i = 0; i < shards.bucket_count; i++)
        stage->placements[i].parameter = addresses[i];
    return allocate_persistent(stage);
}

int stage_allocate_full_gradients(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->accumulation_dtype);
    TRY(tier_allocate(stage->setting.tier, TIER_DEVICE, KIND_GRADIENT, "gradients",
                      layout->trainable_padded_count * element_bytes,
                      full_padding(stage, layout->trainable_count) * element_bytes, (void **)&stage->full_gradients));
    const struct stage_shards shards = {KIND_GRADIENT, "gradient shards", layout->trainable_count, element_bytes,
                                        offloaded_gradient_tier};
    void *addresses[shards.bucket_count + 1];
    TRY(stage_allocate_shards(stage, &shards, addresses));
    for (int i = 0; i < layout->trainable_count; i++) {
        const struct bucket *b = &layout->buckets[i];
        size_t own = b->offset + bucket_shard_begin(b, stage_shard(stage, i));
        stage->placements[i].gradient_shard = addresses[i] ? addresses[i] : stage->full_gradients + own * element_bytes;
    }
    return ERR_NONE;
}

int stage_allocate_gradient_shards(struct stage *stage)
{
    const struct stage_shards shards = {KIND_GRADIENT, "gradient shards", stage->layout.trainable_count,
                                        dtype_bytes(stage->setting.config->accumulation_dtype), stage_gradient_tier};
    void *addresses[shards.bucket_count + 1];
    TRY(stage_allocate_shards(stage, &shards, addresses));
    for (int i = 0; i < shards.bucket_count; i++)
        stage->placements[i].gradient_shard = addresses[i];
    return ERR_NONE;
}
