// SPDX-License-Identifier: Apache-2.0
// A rank as a stage of a pipeline: activations and their gradients go to and come from the neighbouring stages, and a
// tied weight is kept equal at both ends. Without pipeline parallelism there is one stage, and nothing of this happens.
//
// The token embedding of a GPT is in the first stage, which uses it as a table, and in the last one, which uses it as
// the head. Its gradient is a sum of both uses, micro-batch by micro-batch, as without a pipeline: the last stage sends
// its part of each micro-batch's gradient to the first, where the embedding's backward adds its own. The first stage
// alone has the optimizer's states, counts the gradient in the norm and makes the update, and sends the updated weight
// to the last. (Megatron-LM sums the gradients of all micro-batches at both ends and updates both copies, which rounds
// in another order.)
#ifndef ZG_TRAIN_PIPELINE_H
#define ZG_TRAIN_PIPELINE_H

#include "ref/formula/formula.h"
#include "ref/model/part.h"
#include "ref/pipeline/schedule.h"

struct train_rank;

struct train_pipeline {
    struct pipeline_schedule schedule;
    int stage;                       // this rank's, of schedule.stage_count
    int before, after, first, last;  // ranks of parts_comm: the neighbours' and the ends', if they are others
    int tied;                        // the tied weight's index in this stage's model; -1: none, or at no other end
    size_t tied_bytes;               // in the model's dtype
    void *tied_gradient;             // the last stage: its part of the gradient
};

// Sets the rank's stage and its schedule; the rest after the stage of ZeRO is open.
void train_pipeline_place(struct train_rank *rank);
int train_pipeline_open(struct train_rank *rank);

// Issues an action that is a message.
int train_pipeline_message(struct train_rank *rank, struct pipeline_action action);

// Around a micro-batch's backward. receive_tied: in the first stage, when its embedding's gradient is open.
int train_pipeline_receive_tied(struct train_rank *rank, int micro, int layer);
int train_pipeline_send_tied(struct train_rank *rank, int micro);

// After an update whose parameters forward will see: sends the tied weight from the first stage to the last.
int train_pipeline_share_tied(struct train_rank *rank);

// Adds the bytes held, and those sent in every step and after every update.
void train_pipeline_formula(const struct train_rank *rank, struct formula *formula);

#endif
