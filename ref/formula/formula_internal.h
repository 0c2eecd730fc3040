// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ref/formula/formula.h"

// Bytes of an element, as in the paper: p for parameters, g for gradients that are kept, c for gradients in
// collectives, and K = 2 m or 2 m + k for the optimizer (moments, and the master copy of parameters in another format
// or on another tier): 8 or 12 in fp32, 4 or 6 in formats of 16 bits.
struct terms {
    const struct stage *stage;
    const struct config *config;
    uint64_t p, g, c, m, k;
    uint64_t ranks, micro_steps;  // ranks: N, or the S of a shard group
    int rank;                     // in the shard group
    uint64_t experts;             // E: ranks that hold all experts together
    uint64_t expert_ranks;        // ranks of a shard group with this rank's experts, and this rank among them
    int expert_rank;
    uint64_t replicas, replica;     // R groups, and this rank's one
    uint64_t secondary_ranks;       // P of hpZ; 0: there is no second copy
    enum ledger_group shard_group;  // the world, unless there are replicas, or the model is cut into parts
};

// A stage's part: the bytes that it holds of a bucket, and those that it moves in a step.
typedef void formula_hold(const struct terms *t, const struct bucket *bucket, const struct placement *placement,
                          struct formula *f);
typedef void formula_move(const struct terms *t, struct formula *f);

extern formula_hold ddp_hold, zero1_hold, zero2_hold, zero3_hold;
extern formula_move ddp_move, zero1_move, zero2_move, zero3_move;

// The parts that all stages share: staging buffers, and the scalars of the norm.
void formula_hold_staging(const struct stage *stage, struct formula *f);
void formula_move_norm(const struct terms *t, struct formula *f);

// States that are read again, because their buffers were needed or the step was skipped.
void formula_move_ahead(const struct terms *t, struct formula *f);

// Tokens on their way to experts and back.
void formula_move_tokens(const struct terms *t, struct formula *f);

// The ranks over which a bucket is partitioned and summed, and this rank's shard of it.
static inline uint64_t bucket_ranks(const struct terms *t, const struct bucket *bucket)
{
    return bucket->expert ? t->expert_ranks : t->ranks;
}

static inline int bucket_rank(const struct terms *t, const struct bucket *bucket)
{
    return bucket->expert ? t->expert_rank : t->rank;
}

static inline enum ledger_group bucket_group(const struct terms *t, const struct bucket *bucket)
{
    return bucket->expert ? GROUP_EXPERT_DATA : t->shard_group;
}

// One where the update is of the whole tensor.
static inline uint64_t moment_count(const struct bucket *bucket)
{
    return bucket->whole ? 1 : 2;
}

static inline int own_shard(const struct terms *t, const struct bucket *bucket)
{
    return bucket_is_replicated(bucket) ? 0 : bucket_rank(t, bucket);
}

static inline uint64_t own_elements(const struct terms *t, const struct bucket *bucket)
{
    return bucket_shard_real(bucket, own_shard(t, bucket));
}

// Elements of a bucket that this rank holds of hpZ's second copy.
static inline uint64_t secondary_elements(const struct terms *t, const struct bucket *bucket)
{
    struct bucket secondary = bucket_secondary(bucket, (int)t->secondary_ranks);
    return bucket_shard_real(&secondary, t->rank % (int)t->secondary_ranks);
}

static inline uint64_t blocks(uint64_t bytes)
{
    return (bytes + TIER_NVME_ALIGNMENT - 1) / TIER_NVME_ALIGNMENT * TIER_NVME_ALIGNMENT;
}

// ZeRO++: the bytes of a shard of `count` elements in a gather, with their scales; and the traffic of a bucket's
// gradients in two hops.
uint64_t formula_gathered_bytes(const struct terms *t, uint64_t count);
void formula_send_hops(const struct terms *t, const struct bucket *bucket, struct formula *f);
