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
//
// With an accelerator the model runs there, as a gradient is a function of its inputs on one processor. All else runs
// here (oracle_device.h).
//
// A gradient summed over R ranks and M micro-steps has two definitions in the field:
//   accumulate, then reduce (stages 0 and 1)   A_r = ((g_r,1 + g_r,2) + ...) in the accumulation dtype; then
//                                              G = ((A_0 + A_1) + ...) over ranks
//   reduce, then accumulate (stages 2 and 3)   R_m = ((g_0,m + g_1,m) + ...) over ranks; then
//                                              G = ((R_1 + R_2) + ...) in the accumulation dtype
// A sum over ranks takes its terms in the communication dtype, folds them in fp32, and is rounded to the
// communication dtype once. With one micro-step the two are the same.
//
// On a mesh of R replicas of S shards, rank r being in group g = r / S, a sum over ranks has two levels, whose order no
// framework's documentation states and which the collectives of HSDP and MiCS imply:
//   stage 1            G_g = ((A_gS + A_gS+1) + ...) over the group's ranks, rounded to the communication dtype; then
//                      G = ((G_0 + G_1) + ...) over groups
//   stages 2 and 3     R_m,g = ((g_gS,m + g_gS+1,m) + ...) over the group's ranks, rounded to the communication dtype;
//                      G_g = ((R_1,g + R_2,g) + ...) in the accumulation dtype, or R_1,g if there is one micro-step;
//                      then G = ((G_0 + G_1) + ...) over groups
// The sum over groups is one over ranks: terms in the communication dtype, folded in fp32, rounded once. R = 1 is the
// plain stage. S = 1 is data parallelism: a group of one exchanges nothing and so rounds nothing. The plain order over
// all ranks would need each group's sum to wait for that of the group before it.
//
// With experts cut over E ranks, rank r being in expert group g = r / E, a gradient of an expert is made where the
// tokens of a group meet:
//   S_m,g = ((g_gE,m + g_gE+1,m) + ...) over the group's ranks, folded in fp32, rounded to the model's dtype
// S_m,g is then the gradient of "rank" g in the definitions above, for N/E ranks, and beside replicas for R replicas of
// S/E shards. E = 1 is the plain stage. All ranks' gradients are in the sum, which the update divides by their number.
//
// With ZeRO++'s quantized weights (qwZ) forward and backward compute with Q(P) of every parameter that is not
// persistent (oracle_quantize.c). With its quantized gradients (qgZ) a sum over ranks, r being in node n = r / S of R
// nodes, is
//   G_n = ((Q(g_nS) + Q(g_nS+1)) + ...) over the node's ranks; then G = ((Q(G_0) + Q(G_1)) + ...) over nodes
// in fp32, rounded to the communication dtype once. A sum over one rank or one node has no Q, so that S = 1 is R = 1.
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

// The decision of a step, and the numbers that it follows from.
struct oracle_decision {
    bool applied;       // false: skipped for overflow; norm and coefficient are 0
    double loss;        // the mean over ranks and micro-steps
    double norm;        // of the mean gradient, before clipping
    float coefficient;  // of clipping
    double scale;       // of the next step's loss
};

// One step, from 1.
int oracle_step(struct oracle *oracle, uint64_t step, struct oracle_decision *out);

// Whole tensors of a parameter: fp32 states, whose moments are NULL if it is frozen, and the parameter in the model's
// dtype, as the next forward sees it. Valid until the next step.
struct oracle_states {
    const float *parameter, *exp_avg, *exp_avg_sq;
    const void *model_params;
};
struct oracle_states oracle_states(const struct oracle *oracle, int param);

#endif
