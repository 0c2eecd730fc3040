// SPDX-License-Identifier: Apache-2.0
// Unsharded training, the definition of right: one thread, whole tensors, every rank's micro-batches one after the
// other, one element at a time. No value of the sharded run enters it.
//
// It shares with the sharded run, and an error in these shows in both:
//   the model       model_initialise, model_forward, model_backward, model_loss
//   the recipe      recipe_find, recipe_begin_step, recipe_tail_start, recipe_element
//   rounding        the conversions of one element in dtype.h
//   configuration   struct config
// It shares no sum over ranks or micro-steps, norm, clip, loss scale, learning rate, division or order of operations:
// the build does not let it include ref/partition, ref/optimizer or ref/stage (tools/tidy/floors.txt). Two more
// programs compute the same and share nothing of this list but the configuration: conformance/unsharded, which has its
// own recipes and rounding, and ref/one_file/zero.c, which includes nothing of the project.
// With an accelerator the model runs there; all else runs here (oracle_device.c).
//
// A gradient summed over R ranks and M micro-steps has two definitions in the field:
//   accumulate, then reduce (stages 0 and 1)   A_r = ((g_r,1 + g_r,2) + ...) in the accumulation dtype; then
//                                              G = ((A_0 + A_1) + ...) over ranks
//   reduce, then accumulate (stages 2 and 3)   R_m = ((g_0,m + g_1,m) + ...) over ranks; then
//                                              G = ((R_1 + R_2) + ...) in the accumulation dtype
// A sum over ranks takes its terms in the communication dtype, folds them in fp32, and is rounded to that dtype once.
//
// These are all of unsharded Adam. Options of the configuration that change bits have definitions of their own, each
// next to the code that follows it: sums on a mesh of replicas, and of experts' gradients, in oracle_mesh.h; ZeRO++'s
// quantization in oracle_quantize.c; the delayed update in oracle_delay.h; Muon in oracle_muon.h.
#pragma once

#include "ref/config/config.h"
#include "ref/model/model.h"

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
    const struct accelerator *accelerator;  // on which the model runs; null: none
    int device;                             // of the accelerator
};

struct oracle;

int oracle_open(const struct oracle_setting *setting, struct oracle **out);
void oracle_close(struct oracle *oracle);

// One step, from 1: it is skipped for overflow, with norm and coefficient 0, or applied. loss: the mean over ranks and
// micro-steps; norm: of the mean gradient, before clipping; scale: of the next step's loss.
struct oracle_decision {
    bool applied;
    float coefficient;
    double loss, norm, scale;
};
int oracle_step(struct oracle *oracle, uint64_t step, struct oracle_decision *out);

// Whole tensors of a parameter: fp32 states, whose moments are NULL if it is frozen, and the parameter in the model's
// dtype, as the next forward sees it. Valid until the next step.
struct oracle_states {
    const float *parameter, *exp_avg, *exp_avg_sq;
    const void *model_params;
};
struct oracle_states oracle_states(const struct oracle *oracle, int param);
