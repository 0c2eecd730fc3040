// SPDX-License-Identifier: Apache-2.0
// The optimizer of one rank over the shares it owns: overflow check and loss scale, global norm and clip, Adam. It
// knows shares and where they lie, not stages: a stage that cuts nothing has one share, everybody's.
#ifndef ZG_UPDATE_H
#define ZG_UPDATE_H

#include "comm.h"
#include "config.h"
#include "flow.h"
#include "norm.h"
#include "recipe.h"
#include "scaler.h"
#include "shard.h"

#include <stdbool.h>

// Where a bundle's states lie on this rank. Shares begin with this rank's first element.
struct place {
    void *gradient;        // share, in the accumulation dtype: the sum over ranks and micro-steps
    float *master;         // share, fp32: the parameters that Adam updates
    float *exp_avg, *exp_avg_sq;  // share
    void *parameter;       // share, in the model's dtype; the same memory as master in fp32
    void *whole;           // the padded bundle in the model's dtype; NULL where no rank holds it
};

struct optimizer {
    const struct model *model;
    const struct config *config;
    const struct layout *layout;
    const struct place *places;  // by bundle
    struct comm *comm;
    struct flow *flow;
    bool replicated;  // every rank holds, and updates, everything
    int share;        // the share this rank owns
    int threads;
    const struct recipe *recipe;
    struct recipe_state *states;    // by group
    struct adam_scalars *scalars;   // by group, of the present step
    uint32_t *max_bits;             // by bundle
    struct norm_sum *sums;          // by bundle
    struct scaler scaler;
    uint64_t step;     // t: updates applied so far
    uint64_t skipped;  // steps not applied
    double lr;         // of the last applied step
    double norm;       // of the last step's gradient: mean over ranks and micro-steps, unscaled, before clipping
    float divisor, coefficient;
};

int optimizer_open(struct optimizer *optimizer);
void optimizer_close(struct optimizer *optimizer);

// Waits for the gradients, looks at all of them, and decides: *apply is false on overflow, which changes the loss
// scale and nothing else. Otherwise t advances and the step's scalars are ready.
int optimizer_begin(struct optimizer *optimizer, bool *apply);

// Issues the update of this rank's share of one trainable bundle.
int optimizer_update(struct optimizer *optimizer, int bundle);

// Hyper-parameters of a group at a learning rate. Group 0 is as configured; each further group halves the learning
// rate of the one before it and decays nothing.
struct adam_hyper optimizer_group(const struct config *config, int group, double lr);

// The number a summed gradient is divided by: ranks x micro-steps x loss scale.
float optimizer_divisor(const struct config *config, int world, double loss_scale);

#endif
