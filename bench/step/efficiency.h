// SPDX-License-Identifier: Apache-2.0
// The efficiency of a training step that ZeRO-Infinity's model predicts (section 4 of the paper). The model assumes
// that nothing is computed while a state moves over its link:
//
//   ait = operations of a step / bytes of the state that move in it   (arithmetic intensity)
//   efficiency = ait x bandwidth / (ait x bandwidth + peak)
//
// The paper derives ait for 16-bit mixed precision with all activation checkpoints moved: tokens of a micro-batch for
// parameters and gradients, a quarter of that for optimizer states. Here the bytes are those that the ledger counts in
// this step. Times of several kinds of state add up: the total efficiency is 1 / (1 + sum of (1 / efficiency - 1)). No
// formula includes the time of the update itself.
#pragma once

#include "ref/ledger/ledger.h"

#include <jansson.h>

#include <stdbool.h>

enum efficiency_state { PARAMS_AND_GRADIENTS, OPTIMIZER_STATES, ACTIVATIONS, EFFICIENCY_STATE_COUNT };

// The operations and bytes of one rank in a step.
struct efficiency_step {
    double flops;                    // recomputation of activations included
    double flops_per_s;              // the peak: the rate of a step that moves nothing
    double bytes[LANE_COUNT];        // moved, all kinds together
    double optimizer_bytes;          // of these, optimizer states: half read from NVMe, half written
    double activation_bytes;         // of these, activations in one direction; as many in the other
    double bytes_per_s[LANE_COUNT];  // each lane's rate alone; above 0 if the lane has bytes
};

struct efficiency {
    // The slowest link on the state's way: collectives, copies between device and host, or transfers between host and
    // NVMe. 0 bytes: nothing moves, and the efficiency is 1.
    struct {
        double bytes, bytes_per_s, efficiency;
    } states[EFFICIENCY_STATE_COUNT];
    double predicted;
};

// Predicts the efficiency. step->flops and flops_per_s are above 0.
void efficiency_predict(const struct efficiency_step *step, struct efficiency *out);

// Returns the record's "efficiency" (results/RECORDS.md) for a measured step. Null: out of memory.
json_t *efficiency_json(const struct efficiency_step *step, const struct efficiency *efficiency, double step_ms);

// Returns the measured efficiency: the time of the step's operations at the peak, over the measured time.
double efficiency_measured(const struct efficiency_step *step, double step_ms);
