// SPDX-License-Identifier: Apache-2.0
// A stage is four verbs. The model asks for a layer's parameters (acquire), uses them, lets them go (release), hands
// over the gradients that backward has made (reduce), and at the end of the accumulation asks for the update (step).
// Data parallelism and ZeRO-1, 2 and 3 differ in these functions, and in what they hold, and in nothing else.
//
// The verbs issue operations on the executor; nothing has happened when they return, but for step, which waits for the
// gradients to decide about overflow and clipping.
#ifndef ZG_STAGE_H
#define ZG_STAGE_H

#include "ref/comm/comm.h"
#include "ref/config/config.h"
#include "ref/partition/exchange.h"
#include "ref/executor/executor.h"
#include "ref/model/model.h"
#include "ref/executor/move.h"
#include "ref/stage/access_trace.h"
#include "ref/tier/buffer_pool.h"
#include "ref/partition/layout.h"
#include "ref/partition/buffer_cache.h"
#include "ref/tier/tier.h"
#include "ref/optimizer/optimizer.h"

#include <stdbool.h>
#include <stdint.h>

enum pass { PASS_FORWARD, PASS_BACKWARD };

struct stage;

struct stage_operations {
    const char *name;              // "ZeRO-1"
    const char *partition;         // what the paper calls what is cut: "P_os"
    bool reduces_each_micro_step;  // which of the two sums over micro-steps and ranks it computes (oracle.h)
    bool replicates_update;        // every rank holds every optimizer state
    int (*open)(struct stage *stage);
    int (*acquire)(struct stage *stage, int layer, enum pass pass);
    int (*release)(struct stage *stage, int layer, enum pass pass);
    int (*reduce)(struct stage *stage, int layer);
    int (*step)(struct stage *stage, bool *applied);
};

// What a stage is opened with; all of it outlives the stage.
struct stage_setting {
    const struct model *model;
    const struct config *config;
    struct comm *comm;
    struct executor *executor;
    struct tier *tier;       // device and host
    struct tier_nvme *nvme;  // null: nothing is on NVMe, or the stage is planned and no verb follows
    struct ledger *ledger;   // counts what moves between tiers; null: nothing does
    uint64_t seed;           // of the initial parameters
    int threads;             // for the update
};

struct stage {
    const struct stage_operations *operations;
    struct stage_setting setting;
    struct exchange exchange;
    struct move move;
    struct layout layout;
    struct placement *placements;  // by bucket
    struct optimizer optimizer;
    int micro;                             // micro-step of the present step, from 0
    struct buffer_cache gradient_buffers;  // where backward makes gradients that do not stay there
    bool has_gradient_buffers;
    struct buffer_cache comm_buffers;  // gradients in the communication dtype, where that is another one
    bool has_comm_buffers;
    struct buffer_pool arrived_shards;  // host: gradients on their way from the device, in the communication dtype
    struct buffer_pool summed_shards;   // host: gradients on NVMe while a micro-step is added
    struct buffer_cache gathered;       // ZeRO-3: the layers in use
    struct buffer_cache host_params;    // ZeRO-3: shards of layers on their way from NVMe, or kept for their next use
    uint64_t host_hits, host_misses;
    struct access_trace access_trace;  // ZeRO-3: in which order layers are asked for
    char **names;                      // [name_count] of what is on NVMe, for messages; owned
    size_t name_count;
    uint64_t *touched_at;    // ZeRO-3, by bucket: elements acquired when it was last acquired
    uint64_t *asked_at;      // ZeRO-3, by bucket: its position in the trace when it was last acquired, from 1; 0: never
    uint64_t touched_count;  // ZeRO-3: elements acquired so far
    uint64_t fetched;        // ZeRO-3: positions of the trace that are acquired; those ahead of it are prefetched
    char *full_gradients;    // stages that hold full gradients
    const void **params;     // by parameter: valid between acquire and release, for the operations issued there
    struct model_gradient *gradients;  // by parameter: valid from acquire for backward to reduce
};

// 0: data parallelism; 1, 2, 3: ZeRO. ERR_USAGE for anything else.
int stage_find(int number, const struct stage_operations **out);

int stage_open(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out);

// The same without values: layout, placements and staging, for formulas and for verbs on a dry executor. The tiers may
// be planned ones.
int stage_plan(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out);
void stage_close(struct stage *stage);

// Begins a micro-step; the accumulation's last is the one after which the caller asks for the step.
void stage_begin_micro_step(struct stage *stage, int micro);
bool stage_last_micro_step(const struct stage *stage);

// For checks, outside the executor and uncounted: the whole fp32 parameters or moments of one bucket from all ranks'
// shards, and the bucket in the model's dtype as this rank (or, where none holds it whole, all ranks together) has it.
// full has the bucket's padded elements. Collective.
enum state { STATE_PARAMETER, STATE_EXP_AVG, STATE_EXP_AVG_SQ, STATE_COUNT };
int stage_collect(struct stage *stage, int bucket, enum state state, float *full);
int stage_collect_model_params(struct stage *stage, int bucket, void *full);

// The same after a step whose update was not delayed: the sum of a trainable bucket's gradients over ranks and
// micro-steps that it was made with, in the accumulation dtype.
int stage_collect_gradient(struct stage *stage, int bucket, void *full);

// For checkpoints, outside the executor and uncounted: this rank's shard of a bucket's state, bucket_shard_real
// elements in fp32, from and to wherever it lives. Frozen buckets have parameters only. Written parameters reach the
// model's dtype as well; stage_regather (collective) then completes the copies that ranks hold in full.
int stage_read_shard(struct stage *stage, int bucket, enum state state, float *out);
int stage_write_shard(struct stage *stage, int bucket, enum state state, const float *in);
int stage_regather(struct stage *stage);

// The same for the parameters as the model sees them, in its dtype: with the delayed update they are one step behind.
int stage_read_model_params(struct stage *stage, int bucket, void *out);
int stage_write_model_params(struct stage *stage, int bucket, const void *in);

// The shard of the parameters that this rank owns of a bucket: its rank, or 0 where every rank owns everything.
int stage_shard(const struct stage *stage, int bucket);

// --- for the stages themselves ---

// Cuts the model in buckets, and gives their states their tiers.
int stage_lay_out(struct stage *stage, const struct layout_rule *rule);

// A bucket that one of the layer's parameters lies in; *next starts as 0. False when there are no more.
bool stage_next_bucket(const struct stage *stage, int layer, int *next, int *bucket);

// The same for the trainable buckets whose gradients are complete when the layer's backward is done.
bool stage_next_complete(const struct stage *stage, int layer, int *next, int *bucket);

// Points the bucket's parameters at memory where the padded bucket begins.
void stage_point_params(struct stage *stage, int bucket, const void *full);

// Where backward makes the gradients of a layer: in gradient buffers, each trainable bucket getting one if it has none
// yet; or, in stages that hold full gradients, right there if nothing stands against it.
int stage_open_gradient_buffers(struct stage *stage, int layer);
int stage_open_gradients(struct stage *stage, int layer);

// What becomes of a complete bucket's gradient. Stages that hold full gradients add the gradient buffer, if there is
// one, to them (the first micro-step overwrites). Stages that hold shards of gradients send the gradient buffer and add
// this rank's shard of the sum over ranks to theirs.
int stage_keep_gradient(struct stage *stage, int bucket);
int stage_scatter_gradient(struct stage *stage, int bucket);

// This rank's shard of a complete bucket's gradient, summed over ranks, in memory of the device at `reduced_shard` in
// that dtype, goes to where it is kept, or is added there.
int stage_store_gradient(struct stage *stage, int bucket, const void *reduced_shard, enum dtype dtype, bool add);

// Decides about the step, updates every bucket, and has the stage publish each: what must happen before the model may
// see a bucket's new shard. With the delayed update those of the step before are published.
int stage_update(struct stage *stage, int (*publish)(struct stage *stage, int bucket), bool *applied);

// What publishes where ranks hold full parameters: all ranks' shards are gathered.
int stage_gather_full(struct stage *stage, int bucket);

// full, on the device, becomes the bucket: this rank's shard comes from where it lives, and all are gathered.
// "Bandwidth-centric": every rank reads 1/N_d by its own link.
int stage_fetch(struct stage *stage, int bucket, void *full);

// The gradient of a complete bucket as the collectives take it: full itself, or its copy in the communication dtype.
int stage_to_comm_buffer(struct stage *stage, int bucket, void *full, enum dtype dtype, void **out);

// Memory for parameters (full, in the model's dtype), gradients (full or shard, in the accumulation dtype),
// optimizer states and master weights (shard); they fill in the placements.
int stage_allocate_full_params(struct stage *stage);
int stage_allocate_param_shards(struct stage *stage);
int stage_allocate_full_gradients(struct stage *stage);
int stage_allocate_gradient_shards(struct stage *stage);
int stage_allocate_optimizer(struct stage *stage);

// Staging: where backward makes gradients; parameters on their way from NVMe; states on their way to Adam and back;
// gradients on their way to the host and further.
int stage_allocate_gradient_buffers(struct stage *stage);
int stage_allocate_host_params(struct stage *stage);
int stage_allocate_buffers(struct stage *stage);
int stage_allocate_arrived_shards(struct stage *stage);

// A second buffer for gradients on their way, where `always` or where the communication dtype is not theirs.
int stage_allocate_comm_buffers(struct stage *stage, enum dtype source, bool always);

// Whether a stage that holds full gradients cannot have backward make them there.
bool stage_needs_gradient_buffers(const struct stage *stage);

#endif
