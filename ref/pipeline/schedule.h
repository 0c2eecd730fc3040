// SPDX-License-Identifier: Apache-2.0
// Schedules of pipeline parallelism: the model's layers are cut into P stages, one after the other, and M micro-batches
// pass through them, forward from the first stage to the last and backward from the last to the first.
//
//   GPipe   every stage does all forwards, then all backwards (GPipe, arXiv 1811.06965, figure 2c): M micro-batches are
//           in flight in every stage
//   1F1B    stage p does P-1-p forwards, then a forward and a backward in turn, then the backwards that are left
//           (Megatron-LM, arXiv 2104.04473, section 2.2.1: PipeDream-Flush): at most P-p micro-batches are in flight
//
// Both have the bubble (P-1)/(M+P-1): the part of a step in which a stage has nothing to do. In both, every stage does
// its backwards in ascending order of micro-batches, so that gradients are added as without a pipeline, and the bits do
// not depend on P. (GPipe's figure has them in descending order.)
//
// A stage does its actions one after the other. A message waits in the receiver's one slot for each direction: a send
// waits until the message before it has been received.
#pragma once

#include <stdbool.h>

enum pipeline_kind { PIPELINE_1F1B, PIPELINE_GPIPE };

enum pipeline_verb {
    PIPELINE_RECEIVE_ACTIVATIONS,  // from the stage before
    PIPELINE_FORWARD,
    PIPELINE_SEND_ACTIVATIONS,   // to the stage after
    PIPELINE_RECEIVE_GRADIENTS,  // of the activations that were sent, from the stage after
    PIPELINE_BACKWARD,
    PIPELINE_SEND_GRADIENTS,  // of the activations that were received, to the stage before
};

struct pipeline_action {
    enum pipeline_verb verb;
    int micro;  // micro-batch, from 0
};

struct pipeline_schedule {
    enum pipeline_kind kind;
    int stage_count;  // P
    int micro_count;  // M
};

// "1f1b" or "gpipe". ERR_USAGE.
int pipeline_kind_parse(const char *text, enum pipeline_kind *out);
const char *pipeline_kind_name(enum pipeline_kind kind);

// The actions of one stage, in order; *next starts as 0. False when there are no more. A schedule of one stage has
// nothing to send: it is the plain loop, forward and backward of one micro-batch after the other.
bool pipeline_next(const struct pipeline_schedule *schedule, int stage, int *next, struct pipeline_action *out);

// The largest number of micro-batches whose forward a stage has begun and whose backward it has not ended: GPipe M,
// 1F1B min(M, P-p); 1 with one stage.
int pipeline_in_flight(const struct pipeline_schedule *schedule, int stage);

// (P-1)/(M+P-1), for stages and micro-batches that take equal times.
double pipeline_bubble(const struct pipeline_schedule *schedule);
