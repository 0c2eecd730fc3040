// SPDX-License-Identifier: Apache-2.0
// The optimizer of one rank over the shards it owns: overflow check and loss scale, global norm and clip, Adam. It
// knows shards and their placements, not stages: in data parallelism every rank owns the one shard of everything.
#pragma once

#include "ref/comm/comm.h"
#include "ref/config/config.h"
#include "ref/executor/move.h"
#include "ref/arithmetic/norm.h"
#include "ref/recipe/recipe.h"
#include "ref/tier/buffer_pool.h"
#include "ref/optimizer/placement.h"
#include "ref/optimizer/scaler.h"
#include "ref/optimizer/whole.h"
#include "ref/partition/layout.h"

#include <stdbool.h>

struct optimizer {
    const struct model *model;
    const struct config *config;
    const struct layout *layout;
    struct placement *placements;  // by bucket
    struct comm *norm_comm;        // of the ranks that have all gradients together; null: this rank has all
    struct comm *parts_comm;       // of the ranks that hold the model's other parts (part.h); null: it has none
    struct comm *slices_comm;      // of the ranks that have slices of this part's parameters, in their order; or null
    int ranks;                     // whose gradients are summed
    struct move move;
    const struct whole_update *whole;                 // the update of whole tensors; null: there are none
    struct buffer_pool device_buffers, host_buffers;  // states on their way to Adam and back
    struct buffer_pool scratch[TIER_HOST + 1];        // by tier, of whole updates there: one, or none
    int groups_at_once;                               // sub-groups for which there are host_buffers
    struct states_ahead ahead[OPTIMIZER_AHEAD_MAX];   // in the order of updates
    int ahead_count;
    int threads;  // of the update
    const struct recipe *recipe;
    struct recipe_state *states;         // by group
    struct recipe_state *states_before;  // by group, and lr_before: before the present step
    struct adam_scalars *scalars;        // by group, of the present step
    bool *scanned;                       // by bucket: this step's scan for max_bits is issued
    bool *updated;                       // by bucket: this step's update is issued
    bool *speculated;                    // by bucket: this step's speculative update is issued, and not yet decided
    struct gradient_scan *scan;          // while it is issued, with room for the ranges of all gradients
    struct executor_span *scan_spans;    // of these, and of a scan's results
    struct tier *tier;         // has the numbers that operations make, and the optimizer reads after it waited:
    uint32_t *max_bits;        // by bucket
    struct norm_sum *sums;     // by bucket
    struct norm_sum *guesses;  // by bucket, OPTIMIZER_GUESSES of them: at successive exponents
    void *gathered;            // this rank's number and those of all ranks that agree about one
    int exponent;              // of the largest square of the last norm (norm.h),
    bool guesses_exponent;     // which this step's may be near; false: there was none, or it was not finite
    bool reads_for_norm;       // this step's norm reads gradients on NVMe
    struct scaler scaler;
    uint64_t step;       // t: updates applied so far
    uint64_t skipped;    // steps not applied
    uint64_t returned;   // updates whose parameters forward has seen: t, or with the delayed update one less
    uint64_t rescanned;  // norms that were summed in a second pass over gradients on NVMe
    uint64_t reread;     // steps in which states that were read ahead were read again
    uint64_t redone;     // applied steps whose speculative updates were dropped, because they were clipped
    bool began;          // t and scalars of this step are made before its decision; a skip takes them back
    bool delays;         // forward sees the present step's update one step late
    bool waiting;        // forward has not seen the last update's parameters
    struct update_digests *digests;  // of a verified run (update_digest.h); null: none
    double lr;                       // of group 0 in the last applied step
    double lr_before;
    double norm;        // of the last step's unscaled mean gradient over ranks and micro-steps, before clipping
    double mean_count;  // the divisor of the present step's sums, without the loss scale; 0: ranks x micro-steps
    float divisor, coefficient;    // of the summed gradient: / divisor, then x coefficient (clip.h)
    char read_order, write_order;  // never accessed: transfers that may not overlap the update declare to write them
};

int optimizer_open(struct optimizer *optimizer);
void optimizer_close(struct optimizer *optimizer);

// Issues the scan of a bucket's complete gradient for its largest magnitude, and if it goes to NVMe for the sum of its
// squares. `gradient` is this rank's shard in memory, so that optimizer_begin need not read it there.
int optimizer_scan(struct optimizer *optimizer, int bucket, enum ledger_tier tier, const void *gradient);

// True if the update of the step that optimizer_begin decides about is delayed (ZeRO-Offload, section 5.2).
bool optimizer_delays(const struct optimizer *optimizer);

// Collective. Waits for the gradients, scans them and decides: *apply is false on overflow, which changes nothing but
// the loss scale. Otherwise t advances and the step's scalars are ready. Speculative updates of a step that is skipped
// or clipped are dropped.
int optimizer_begin(struct optimizer *optimizer, bool *apply);

// Issues the update of this rank's shard of one trainable bucket, unless this step has done so: sub-group by sub-group,
// states travel to the tier where Adam runs, and updated ones back. A speculative update is committed. With the delayed
// update the parameters wait in `pending` until optimizer_return makes them this rank's shard of the parameters.
// shard: host memory that receives the updated parameters on their way to NVMe, in whole blocks, of an update that
// follows the decision; null: they pass staging buffers.
int optimizer_update(struct optimizer *optimizer, int bucket, void *shard);
int optimizer_return(struct optimizer *optimizer, int bucket);

// Elements of a sub-group of a bucket: the whole shard, or sub_group_size rounded up so that every sub-group begins on
// a block of NVMe in every dtype. A bucket whose update is of the whole tensor is one sub-group.
size_t optimizer_sub_group_count(const struct optimizer *optimizer, int bucket);

// Bytes of the widest state of the largest sub-group: the size of a staging buffer.
size_t optimizer_buffer_bytes(const struct optimizer *optimizer);

// Bytes of scratch that the whole updates of this rank need on a tier; 0: there are none.
size_t optimizer_scratch_bytes(const struct optimizer *optimizer, enum ledger_tier tier);

// Bytes that this rank sends to those with the other slices, in a bucket's update; 0: it is not whole, or not cut.
size_t optimizer_sliced_bytes(const struct optimizer *optimizer, int bucket);

// Hyper-parameters of a group of parameters in the run's step `step`, which makes update number t; both count from 1.
// If the configuration has no groups, group 0 is as configured, and each further group has half the learning rate of
// the one before it and no weight decay.
struct adam_hyper optimizer_group(const struct config *config, int group, uint64_t step, uint64_t t);

// The divisor of a summed gradient: ranks x micro-steps x loss scale.
float optimizer_divisor(const struct config *config, int world, double loss_scale);
