// SPDX-License-Identifier: Apache-2.0
// The optimizer of one rank over the shards it owns: overflow check and loss scale, global norm and clip, Adam. It
// knows shards and where they lie, not stages: a stage that cuts nothing has one shard, which every rank holds.
#ifndef ZG_UPDATE_H
#define ZG_UPDATE_H

#include "ref/comm/comm.h"
#include "ref/config/config.h"
#include "ref/executor/move.h"
#include "ref/arithmetic/norm.h"
#include "ref/recipe/recipe.h"
#include "ref/tier/buffer_pool.h"
#include "ref/optimizer/scaler.h"
#include "ref/partition/layout.h"

#include <stdbool.h>

// Where a bucket's states live on this rank. Shards begin with this rank's first element. An address on NVMe only names
// the bytes there (tier_nvme.h).
struct placement {
    enum ledger_tier gradient_tier, optimizer_tier, parameter_tier;
    void *gradient_shard;         // shard, in the accumulation dtype: the sum over ranks and micro-steps
    float *master;                // shard, fp32: the parameters that Adam updates
    float *exp_avg, *exp_avg_sq;  // shard
    void *parameter;              // shard, in the model's dtype; in fp32, on one tier, the same memory as master
    void *full_params;            // the padded bucket in the model's dtype, on the device; NULL where no rank holds it
    // Only with the delayed update: updated parameters until they may be seen, and the gradients of the other step.
    void *pending;
    void *other_gradient_shard;
};

struct optimizer {
    const struct model *model;
    const struct config *config;
    const struct layout *layout;
    struct placement *placements;  // by bucket
    struct comm *comm;
    struct move move;
    struct buffer_pool device_buffers, host_buffers;  // for states on their way to Adam and from it
    bool replicated;                                  // every rank holds, and updates, everything
    int shard;                                        // the shard this rank owns
    int threads;
    const struct recipe *recipe;
    struct recipe_state *states;   // by group
    struct adam_scalars *scalars;  // by group, of the present step
    uint32_t *max_bits;            // by bucket
    bool *scanned;                 // by bucket: max_bits is that of this step, or is being made
    bool *updated;                 // by bucket: this step's update is issued
    struct norm_sum *sums;         // by bucket
    struct scaler scaler;
    uint64_t step;      // t: updates applied so far
    uint64_t skipped;   // steps not applied
    uint64_t returned;  // updates whose parameters the model has seen: t, or with the delayed update one less
    bool began;         // this step's t and scalars are made, before its gradients are complete
    bool delays;        // the present step's update is seen one step late
    bool waiting;       // the last update's parameters have not been seen
    double lr;          // of the last applied step, of group 0
    double norm;        // of the last step's gradient: mean over ranks and micro-steps, unscaled, before clipping
    float divisor, coefficient;
    char read_order, write_order;  // stand for the order of transfers that must not overlap the update
};

int optimizer_open(struct optimizer *optimizer);
void optimizer_close(struct optimizer *optimizer);

// The memory tier where Adam runs for a bucket: the device for states that live there, otherwise the host.
enum ledger_tier optimizer_tier(const struct placement *placement);

// Where updated parameters wait: beside the others, but for those of the device on the host.
enum ledger_tier placement_pending_tier(const struct placement *placement);

// In fp32 the parameters are the master parameters, one memory, if both live on one tier and updates are seen at once.
bool placement_is_shared(const struct config *config, const struct placement *placement);

// Issues the scan for the largest magnitude of a bucket's gradient while it is in memory here, complete, so that it
// need not be read from NVMe again.
int optimizer_scan(struct optimizer *optimizer, int bucket, enum ledger_tier tier, const void *gradient);

// Whether nothing can stand between a gradient and its update: no overflow is scanned for, and nothing is clipped. Then
// each bucket can be updated as soon as its gradient is complete, beside the rest of backward.
bool optimizer_is_eager(const struct optimizer *optimizer);

// Waits for the gradients, scans all of them, and decides: *apply is false on overflow, which changes the loss
// scale and nothing else. Otherwise t advances and the step's scalars are ready.
int optimizer_begin(struct optimizer *optimizer, bool *apply);

// Issues the update of this rank's shard of one trainable bucket, unless this step has done so, sub-group by sub-group:
// states come to where Adam runs, and what it updated goes back. With the delayed update the parameters wait in
// `pending`, and optimizer_return makes them this rank's shard of the parameters.
int optimizer_update(struct optimizer *optimizer, int bucket);
int optimizer_return(struct optimizer *optimizer, int bucket);

// optimizer_update before the step's other gradients are complete, of an optimizer that is eager.
int optimizer_update_early(struct optimizer *optimizer, int bucket);

// Elements of a sub-group of a bucket: its whole shard, or sub_group_size, rounded up so that every sub-group begins on
// a block of NVMe in every format.
size_t optimizer_sub_group_count(const struct optimizer *optimizer, int bucket);

// Bytes of the largest sub-group's fp32 state: a staging buffer's least size.
size_t optimizer_buffer_bytes(const struct optimizer *optimizer);

// Hyper-parameters of a group for the update in the run's step `step`, which is update number t. Where the
// configuration has no values of its own for groups, group 0 is as configured, and each further group halves the
// learning rate of the one before it and decays nothing.
struct adam_hyper optimizer_group(const struct config *config, int group, uint64_t step, uint64_t t);

// The number a summed gradient is divided by: ranks x micro-steps x loss scale.
float optimizer_divisor(const struct config *config, int world, double loss_scale);

#endif
