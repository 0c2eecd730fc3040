// SPDX-License-Identifier: Apache-2.0
// A stage is four verbs. The model asks for a unit's parameters (acquire), uses them, lets them go (release), hands
// over the gradients that backward has made (reduce), and at the end of the accumulation asks for the update (step).
// Data parallelism and ZeRO-1, 2 and 3 differ in these functions, and in what they hold, and in nothing else.
//
// The verbs issue operations on the flow; nothing has happened when they return, but for step, which waits for the
// gradients to decide about overflow and clipping.
#ifndef ZG_STAGE_H
#define ZG_STAGE_H

#include "ref/comm/comm.h"
#include "ref/config/config.h"
#include "ref/partition/exchange.h"
#include "ref/flow/flow.h"
#include "ref/model/model.h"
#include "ref/flow/move.h"
#include "ref/stage/order.h"
#include "ref/tier/ring.h"
#include "ref/partition/shard.h"
#include "ref/partition/slots.h"
#include "ref/tier/tier.h"
#include "ref/optimizer/update.h"

#include <stdbool.h>
#include <stdint.h>

enum pass { PASS_FORWARD, PASS_BACKWARD };

struct stage;

struct stage_operations {
    const char *name;       // "ZeRO-1"
    const char *partition;  // what the paper calls what is cut: "P_os"
    bool reduces_each_micro_step;  // which of the two sums over micro-steps and ranks it computes (oracle.h)
    bool replicates_update;        // every rank holds every optimizer state
    int (*open)(struct stage *stage);
    int (*acquire)(struct stage *stage, int unit, enum pass pass);
    int (*release)(struct stage *stage, int unit, enum pass pass);
    int (*reduce)(struct stage *stage, int unit);
    int (*step)(struct stage *stage, bool *applied);
};

// What a stage is opened with; all of it outlives the stage.
struct stage_setting {
    const struct model *model;
    const struct config *config;
    struct comm *comm;
    struct flow *flow;
    struct tier *tier;       // device and host
    struct tier_nvme *nvme;  // null: nothing is on NVMe, or the stage is planned and no verb follows
    struct ledger *ledger;   // counts what moves between tiers; null: nothing does
    uint64_t seed;  // of the initial parameters
    int threads;    // for the update
};

struct stage {
    const struct stage_operations *operations;
    struct stage_setting setting;
    struct exchange exchange;
    struct move move;
    struct layout layout;
    struct place *places;       // by bundle
    struct optimizer optimizer;
    int micro;                  // micro-step of the present step, from 0
    struct slots buckets;       // where backward makes gradients that do not stay there
    bool has_buckets;
    struct slots wire;          // gradients in the communication dtype, where that is another one
    bool has_wire;
    struct ring arrivals;       // host: gradients on their way from the device, in the communication dtype
    struct ring sums;           // host: gradients on NVMe while a micro-step is added
    struct slots gathered;      // ZeRO-3: the layers in use
    struct slots host_params;   // ZeRO-3: shares of layers on their way from NVMe, or kept for their next use
    uint64_t host_hits, host_misses;
    struct order order;         // ZeRO-3: in which layers are asked for
    char **names;               // [name_count] of what is on NVMe, for messages; owned
    size_t name_count;
    uint64_t *touched_at;       // ZeRO-3, by bundle: elements acquired when it was last acquired
    uint64_t *asked_at;         // ZeRO-3, by bundle: its place in the order when it was last acquired, from 1; 0: never
    uint64_t touched_count;     // ZeRO-3: elements acquired so far
    uint64_t fetched;           // ZeRO-3: places of the order that are acquired; those ahead of it are prefetched
    char *gradients_whole;      // stages that hold whole gradients
    const void **params;        // by parameter: valid between acquire and release, for the operations issued there
    struct model_gradient *gradients;  // by parameter: valid from acquire for backward to reduce
};

// 0: data parallelism; 1, 2, 3: ZeRO. ERR_USAGE for anything else.
int stage_find(int number, const struct stage_operations **out);

int stage_open(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out);

// The same without values: layout, places and staging, for formulas and for verbs on a dry flow. The tiers may be
// planned ones.
int stage_plan(const struct stage_operations *operations, const struct stage_setting *setting, struct stage *out);
void stage_close(struct stage *stage);

// Begins a micro-step; the accumulation's last is the one after which the caller asks for the step.
void stage_begin_micro_step(struct stage *stage, int micro);
bool stage_last_micro_step(const struct stage *stage);

// For checks, outside the flow and uncounted: the whole fp32 parameters or moments of one bundle from all ranks'
// shares, and the bundle in the model's dtype as this rank (or, where none holds it whole, all ranks together) has it.
// whole has the bundle's padded elements. Collective.
enum state { STATE_PARAMETER, STATE_EXP_AVG, STATE_EXP_AVG_SQ, STATE_COUNT };
int stage_collect(struct stage *stage, int bundle, enum state state, float *whole);
int stage_collect_copy(struct stage *stage, int bundle, void *whole);

// The same after a step whose update was not delayed: the sum of a trainable bundle's gradients over ranks and
// micro-steps that it was made with, in the accumulation dtype.
int stage_collect_gradient(struct stage *stage, int bundle, void *whole);

// For checkpoints, outside the flow and uncounted: this rank's share of a bundle's state, bundle_share_real elements in
// fp32, from and to wherever it lives. Frozen bundles have parameters only. Written parameters reach the model's dtype
// as well; stage_regather (collective) then completes the copies that ranks hold whole.
int stage_read_share(struct stage *stage, int bundle, enum state state, float *out);
int stage_write_share(struct stage *stage, int bundle, enum state state, const float *in);
int stage_regather(struct stage *stage);

// The same for the parameters as the model sees them, in its dtype: with the delayed update they are one step behind.
int stage_read_copy(struct stage *stage, int bundle, void *out);
int stage_write_copy(struct stage *stage, int bundle, const void *in);

// The share of the parameters that this rank owns of a bundle: its rank, or 0 where every rank owns everything.
int stage_share(const struct stage *stage, int bundle);

// --- for the stages themselves ---

// Cuts the model in bundles, and gives their states their tiers.
int stage_lay_out(struct stage *stage, const struct layout_rule *rule);

// A bundle that one of the unit's parameters lies in; *next starts as 0. False when there are no more.
bool stage_next_bundle(const struct stage *stage, int unit, int *next, int *bundle);

// The same for the trainable bundles whose gradients are complete when the unit's backward is done.
bool stage_next_complete(const struct stage *stage, int unit, int *next, int *bundle);

// Points the bundle's parameters at memory where the padded bundle begins.
void stage_point_params(struct stage *stage, int bundle, const void *whole);

// Where backward makes the gradients of a unit: in buckets, each trainable bundle getting one if it has none yet; or,
// in stages that hold whole gradients, right there if nothing stands against it.
int stage_open_buckets(struct stage *stage, int unit);
int stage_open_gradients(struct stage *stage, int unit);

// What becomes of a complete bundle's gradient. Stages that hold whole gradients add the bucket, if there is one, to
// them (the first micro-step overwrites). Stages that hold shares of gradients send the bucket and add this rank's
// share of the sum over ranks to theirs.
int stage_keep_gradient(struct stage *stage, int bundle);
int stage_scatter_gradient(struct stage *stage, int bundle);

// This rank's share of a complete bundle's gradient, summed over ranks, in memory of the device at `own` in that dtype,
// goes to where it is kept, or is added there.
int stage_store_gradient(struct stage *stage, int bundle, const void *own, enum dtype dtype, bool add);

// Decides about the step, updates every bundle, and has the stage publish each: what must happen before the model may
// see a bundle's new share. With the delayed update those of the step before are published.
int stage_update(struct stage *stage, int (*publish)(struct stage *stage, int bundle), bool *applied);

// What publishes where ranks hold whole parameters: all ranks' shares are gathered.
int stage_gather_whole(struct stage *stage, int bundle);

// whole, on the device, becomes the bundle: this rank's share comes from where it lives, and all are gathered.
// "Bandwidth-centric": every rank reads 1/N_d by its own link.
int stage_fetch(struct stage *stage, int bundle, void *whole);

// The gradient of a complete bundle as the collectives take it: whole itself, or its copy in the communication dtype.
int stage_to_wire(struct stage *stage, int bundle, void *whole, enum dtype dtype, void **out);

// Memory for parameters (whole, in the model's dtype), gradients (whole or share, in the accumulation dtype),
// optimizer states and master weights (share); they fill in the places.
int stage_allocate_whole_params(struct stage *stage);
int stage_allocate_param_shares(struct stage *stage);
int stage_allocate_whole_gradients(struct stage *stage);
int stage_allocate_gradient_shares(struct stage *stage);
int stage_allocate_optimizer(struct stage *stage);

// Staging: where backward makes gradients; parameters on their way from NVMe; states on their way to Adam and back;
// gradients on their way to the host and further.
int stage_allocate_buckets(struct stage *stage);
int stage_allocate_host_params(struct stage *stage);
int stage_allocate_buffers(struct stage *stage);
int stage_allocate_arrivals(struct stage *stage);

// A second buffer for gradients on their way, where `always` or where the communication dtype is not theirs.
int stage_allocate_wire(struct stage *stage, enum dtype source, bool always);

// Whether a stage that holds whole gradients cannot have backward make them there.
bool stage_needs_buckets(const struct stage *stage);

#endif
