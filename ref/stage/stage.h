// SPDX-License-Identifier: Apache-2.0
// A stage of ZeRO: which states a rank holds, and when they travel. Data parallelism and ZeRO-1, 2 and 3 differ in one
// table of verbs (ddp.c, zero1.c, zero2.c, zero3.c). A training step calls these functions, in this order:
//
//   every micro-step   forward,  first layer to last: stage_acquire, compute, stage_release
//                      backward, last layer to first: stage_acquire, compute, stage_release, stage_reduce
//   after the last     stage_step
//
// They issue operations on the executor and return before these have run. Only stage_step waits: for the gradients, to
// decide about overflow and clipping. Parts of the update may be issued later, by stage_acquire (update_schedule.h).
#pragma once

#include "ref/comm/comm.h"
#include "ref/config/config.h"
#include "ref/executor/executor.h"
#include "ref/executor/move.h"
#include "ref/groups/groups.h"
#include "ref/model/model.h"
#include "ref/optimizer/optimizer.h"
#include "ref/partition/buffer_cache.h"
#include "ref/partition/layout.h"
#include "ref/stage/prefetch.h"
#include "ref/stage/update_schedule.h"
#include "ref/tier/buffer_pool.h"
#include "ref/tier/tier.h"

#include <stdbool.h>
#include <stdint.h>

enum pass { PASS_FORWARD, PASS_BACKWARD };

struct stage;

// All that distinguishes one stage from another. A null function does nothing.
struct stage_operations {
    const char *name;              // "ZeRO-1"
    const char *partition;         // the paper's name for the partitioned states: "P_os"
    bool reduces_each_micro_step;  // false: full gradients are accumulated, and reduced after the last micro-step
    bool replicates_update;        // every rank holds, and updates, all optimizer states

    // Cuts the model into buckets and allocates the rank's part of every state.
    int (*open)(struct stage *stage);
    // Brings a layer's parameters to the device. Null: every rank holds them there.
    int (*acquire)(struct stage *stage, int layer, enum pass pass);
    // Ends the layer's use of its parameters. Null: they stay.
    int (*release)(struct stage *stage, int layer);
    // Sums a bucket's gradient over ranks.
    int (*reduce)(struct stage *stage, int bucket);
    // Decides about the step, updates every bucket and publishes it. Never null.
    int (*step)(struct stage *stage, bool *applied);
    // In `step`, after a bucket's update: makes its parameters visible to all ranks, by an all-gather. Null: every rank
    // updates all.
    int (*publish)(struct stage *stage, int bucket);
};

// Everything that a stage is opened with outlives the stage.
struct stage_setting {
    const struct model *model;
    const struct config *config;
    struct comm *comm;         // of the ranks that train this model
    struct comm *parts_comm;   // if the model is a part (ref/model/part.h): of the ranks that hold all parts together
    struct comm *slices_comm;  // then, for whole updates: of the ranks that have slices of the same parameters
    struct executor *executor;
    struct tier *tier;                 // device and host
    struct tier_nvme *nvme;            // null: nothing is on NVMe, or the stage is only planned
    struct ledger *ledger;             // counts what moves between tiers; null: nobody counts
    uint64_t seed;                     // of the initial parameters
    int threads;                       // for the update
    const struct whole_update *whole;  // of whole tensors (ref/optimizer/whole.h); null: there are none
};

struct stage {
    const struct stage_operations *operations;
    struct stage_setting setting;
    struct groups groups;          // of ranks: those over which states are partitioned, and each bucket's exchange
    struct layout layout;          // the parameters in buckets, and the buckets' shards
    struct placement *placements;  // by bucket: where each of its states lives
    struct optimizer optimizer;
    struct move move;  // copies between tiers
    int micro;         // micro-step of the present step, from 0

    // By parameter, for the operations that compute a layer.
    const void **params;               // valid from acquire to release
    struct model_gradient *gradients;  // valid from acquire in backward to reduce

    // A gradient on its way, in this order; placement.gradient_shard is its end.
    bool has_gradient_buffers;
    struct buffer_cache gradient_buffers;  // backward makes it here, in the model's dtype,
    char *full_gradients;                  // or here, where it is kept in full, in the accumulation dtype
    struct buffer_pool arrived_shards;     // host: this rank's shard of the sum over ranks, as it was sent
    struct buffer_pool summed_shards;      // host: the shard plus earlier micro-steps, for gradients kept on NVMe

    struct prefetcher prefetcher;  // ZeRO-3: parameters on their way to the device

    struct updates updates;

    char **names;  // [name_count] of shards on NVMe, for messages; owned
    size_t name_count;
};

// 0: data parallelism; 1, 2, 3: ZeRO. ERR_USAGE for anything else.
int stage_find(int number, const struct stage_operations **out);

int stage_open(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out);

// The same without values, for formulas and for dry runs: layout, placements and staging. The tiers may be planned.
int stage_plan(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out);
void stage_close(struct stage *stage);

// Begins micro-step `micro` of [0, accumulation). The caller asks for stage_step after the last one.
void stage_begin_micro_step(struct stage *stage, int micro);
bool stage_last_micro_step(const struct stage *stage);

// The layer is about to be computed: stage->params and, in backward, stage->gradients point at its memory.
int stage_acquire(struct stage *stage, int layer, enum pass pass);

// The layer's computation is issued.
int stage_release(struct stage *stage, int layer);

// The layer's backward is issued: the gradients that it completes are accumulated and reduced.
int stage_reduce(struct stage *stage, int layer);

// Decides about the step, updates every bucket and publishes it. *applied is false on overflow. With the delayed update
// the buckets of the step before are published.
int stage_step(struct stage *stage, bool *applied);

// Issues what is left of the last step's update. Call before reading states or timing the update.
int stage_end_update(struct stage *stage);

// The buckets in which a layer's parameters lie; *next starts as 0. False when there are no more.
bool stage_next_bucket(const struct stage *stage, int layer, int *next, int *bucket);

// The shard that this rank owns of a bucket: its rank among those that share the bucket, or 0 where every rank owns
// everything.
int stage_shard(const struct stage *stage, int bucket);

// The communication of a bucket. For shards and buckets, "rank" and "world" mean the ranks of its exchange, over which
// the bucket is partitioned and its gradient summed.
const struct exchange *stage_exchange(const struct stage *stage, int bucket);
