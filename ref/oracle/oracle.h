// SPDX-License-Identifier: Apache-2.0
// Unsharded Adam, plainly: one thread, whole tensors, every rank's micro-batches one after the other, one element at a
// time. It shares the model, the recipe's element and the definitions of rounding with the sharded program, and
// nothing else; no value of the sharded run enters it. What it computes is the definition of right. On an accelerator
// the model runs there, as a gradient is a function of its inputs on one processor; all the rest is done here.
//
// A gradient summed over R ranks and M micro-steps has two definitions in the field:
//   accumulate, then reduce (stages 0 and 1)   A_r = ((g_r,1 + g_r,2) + ...) in the accumulation dtype; then
//                                              G = ((A_0 + A_1) + ...) over ranks
//   reduce, then accumulate (stages 2 and 3)   R_m = ((g_0,m + g_1,m) + ...) over ranks; then
//                                              G = ((R_1 + R_2) + ...) in the accumulation dtype
// A sum over ranks takes its terms in the communication dtype, folds them in fp32, and is rounded to the
// communication dtype once. With one micro-step the two are the same.
//
// With the delayed update (ZeRO-Offload, section 5.2), from step `start_step` on, the parameters that step i's update
// makes are first seen by the forward of step i + 2:
//
//   step i        forward and backward with P: gradient G_i; the update that makes P' from it begins
//   step i + 1    forward and backward with P, beside that update: gradient G_i+1; P' is published; the update that
//                 makes P'' begins
//   step i + 2    forward and backward with P', beside that update
//
// The update itself is the same: Adam on the master parameters with the gradients in their order. Only what forward
// sees is one update behind the master.
#ifndef ZG_ORACLE_H
#define ZG_ORACLE_H

#include "ref/config/config.h"
#include "ref/model/model.h"
#include "ref/stage/stage.h"

#include <stdbool.h>
#include <stdint.h>

// Makes the micro-batch of (step, micro, rank) in *out; out->tokens stays valid until the next call with that context.
typedef int oracle_batch(void *context, uint64_t step, int micro, int rank, struct model_batch *out);

struct oracle_setting {
    const struct model *model;
    const struct config *config;
    int world;
    uint64_t seed;
    bool reduces_each_micro_step;
    oracle_batch *batch;
    void *batch_context;
    const struct accelerator *accelerator;  // where the model runs, and on which device; null: here
    int device;
};

struct oracle;

int oracle_open(const struct oracle_setting *setting, struct oracle **out);
void oracle_close(struct oracle *oracle);

// One step, from 1. *applied is false when it was skipped for overflow; *loss is the mean over ranks and micro-steps.
int oracle_step(struct oracle *oracle, uint64_t step, bool *applied, double *loss);

// Whole tensors, fp32; moments of a frozen parameter are NULL. And the parameter in the model's dtype.
const float *oracle_state(const struct oracle *oracle, enum state state, int param);
const void *oracle_model_params(const struct oracle *oracle, int param);

#endif
