// SPDX-License-Identifier: Apache-2.0
// Random trials from the whole space of configurations with states on tiers. They vary together all that other tests
// vary one by one.
#pragma once

#include "ref/train/offload_test.h"

#include "ref/arithmetic/random.h"

// The random numbers of one trial.
struct draw {
    uint64_t key, at;
};

static inline uint64_t below(struct draw *d, uint64_t count)
{
    return random_below(random_at(d->key, d->at++), count);
}

static inline size_t one_of(struct draw *d, size_t count, const size_t *values)
{
    return values[below(d, count)];
}

#define ONE_OF(draw, ...) one_of(draw, sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t), (const size_t[]){__VA_ARGS__})

static const enum ledger_tier tiers[] = {TIER_DEVICE, TIER_HOST, TIER_NVME};

static inline void place(struct draw *d, struct offload_trial *t)
{
    t->stage = below(d, 4) ? 3 : 1 + (int)below(d, 2);
    t->optimizer = tiers[below(d, t->stage == 3 ? 3 : 2)];
    t->gradient = t->optimizer == TIER_DEVICE ? TIER_DEVICE : tiers[below(d, t->stage == 3 ? 3 : 2)];
    t->parameter = t->stage == 3 ? tiers[below(d, 3)] : TIER_DEVICE;
    t->ratio = t->stage == 3 && t->optimizer == TIER_HOST ? (double)ONE_OF(d, 0, 3, 7, 10, 10) / 10 : 1;
    t->delay = t->optimizer != TIER_DEVICE && t->ratio == 1 && below(d, 3) == 0 ? 1 + below(d, 3) : 0;
    t->speculative = t->gradient != TIER_DEVICE && t->delay == 0 && below(d, 2);
}

static inline void choose_precision(struct draw *d, struct offload_trial *t)
{
    t->precision = (enum dtype)ONE_OF(d, DTYPE_FP32, DTYPE_BF16, DTYPE_BF16, DTYPE_FP16);
    t->communication = below(d, 4) ? t->precision : DTYPE_FP32;
    t->sum = below(d, 2) ? t->precision : DTYPE_FP32;
    // Of two formats one is fp32.
    if (t->communication != t->sum && t->communication != DTYPE_FP32 && t->sum != DTYPE_FP32)
        t->sum = DTYPE_FP32;
}

// A divisor of a count, each as likely as the others.
static inline int divisor(struct draw *d, int count)
{
    int found = 0, divisors[16];
    for (int i = 1; i <= count; i++)
        if (count % i == 0)
            divisors[found++] = i;
    return divisors[below(d, (uint64_t)found)];
}

static inline void choose_mesh(struct draw *d, struct offload_trial *t)
{
    t->replicas = divisor(d, t->world);
    if (t->stage == 3 && !t->owner_broadcast && below(d, 2))
        t->secondary = divisor(d, t->world / t->replicas);
    // A shard group of one rank adds micro-steps in the precision or in fp32.
    if (t->replicas > 1 && t->replicas == t->world && t->sum != t->precision)
        t->sum = DTYPE_FP32;
}

static inline struct offload_trial draw_trial(struct draw *d)
{
    static const char *const models[] = {"linear",
                                         "linear",
                                         "linear-overflow",
                                         "linear-few",
                                         "linear-exact",
                                         "gpt-nano",
                                         "linear:rank=3",
                                         "linear-overflow:rank=2,targets=c+e",
                                         "gpt-nano:rank=2,targets=c_attn"};
    struct offload_trial t = OFFLOAD_TRIAL(.model = models[below(d, sizeof models / sizeof models[0])]);
    place(d, &t);
    choose_precision(d, &t);
    if (strncmp(t.model, "linear-overflow", 15) == 0 && t.precision == DTYPE_FP32)
        t.model = "linear";
    bool gpt = strncmp(t.model, "gpt-nano", 8) == 0;
    t.world = below(d, 12) ? 1 + (int)below(d, 4) : below(d, 2) ? 8 : 11;
    t.steps = gpt ? 3 : 2 + below(d, 5);
    t.accumulation = ONE_OF(d, 1, 1, 2, 3);
    t.schedule.mode = (enum executor_mode)below(d, 3);
    t.schedule.seed = t.schedule.mode == EXECUTOR_CHAOS ? below(d, 1000) : 0;
    t.engine = below(d, 2) ? NVME_IO_URING : NVME_LIBAIO;
    t.block_bytes = ONE_OF(d, 4096, 8192, 1 << 20);
    t.queue_depth = (int)ONE_OF(d, 1, 2, 8);
    t.moments = (enum dtype)ONE_OF(d, DTYPE_FP32, DTYPE_FP32, DTYPE_BF16, DTYPE_FP16);
    t.of_model_dtype = below(d, 2);
    t.sub_group = ONE_OF(d, 1, 2048, 2049, 5000, 1000000000);
    size_t least = offload_least_buffers(&t);
    t.buffers = least == 0 || below(d, 2) ? 0 : least + below(d, 10);
    t.param_buffers = ONE_OF(d, 1, 2, 5);
    t.max_in_cpu = ONE_OF(d, 0, 0, 2048, 6144, 1000000000);
    t.prefetch = ONE_OF(d, 0, 1, 3000, 10000, 1000000000);
    t.persistence = ONE_OF(d, 0, 0, 64, 1000);
    t.live = ONE_OF(d, 1, 12000, 1000000000);
    t.reuse = ONE_OF(d, 0, 0, 1, 3000, 1000000000);
    t.bucket = ONE_OF(d, 64, 998, 5000, 100000000);
    t.pipeline_read = below(d, 2);
    t.pipeline_write = below(d, 2);
    t.overlap_comm = below(d, 2);
    t.contiguous = below(d, 4);
    t.owner_broadcast = t.stage == 3 && below(d, 4) == 0;
    t.unchecked = t.precision == DTYPE_BF16 && strncmp(t.model, "linear-overflow", 15) != 0 && below(d, 2);
    t.checkpointing = gpt && below(d, 2);
    t.activation = t.checkpointing ? tiers[below(d, 3)] : TIER_DEVICE;
    t.tiles = gpt && !strchr(t.model, ':') && below(d, 3) == 0 ? 2 : 1;
    // Never clipped, always, and in some steps of `linear` or of `gpt-nano`.
    t.clip = (double)ONE_OF(d, 0, 1, 192, 1300) / 1000;
    choose_mesh(d, &t);
    return t;
}
