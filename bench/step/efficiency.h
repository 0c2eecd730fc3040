// SPDX-License-Identifier: Apache-2.0
// The efficiency that a training step should have by ZeRO-Infinity's model (section 4 of the paper): each kind of state
// moves over a link, and as long as it does, nothing is computed:
//
//   ait = operations of a step / bytes of the state that move in it        (arithmetic intensity)
//   efficiency = ait x bandwidth / (ait x bandwidth + peak)
//
// The paper derives ait for 16-bit mixed precision and activation checkpoints that are all moved: tokens of a
// micro-batch for parameters and gradients, a quarter of that for optimizer states. Here bytes are those that the
// ledger counted, so that ait is the step's own. Where several kinds move, the times add up: the whole is
// 1 / (1 + sum of (1 / efficiency - 1)). What the update itself takes is in no formula.
#ifndef ZG_EFFICIENCY_H
#define ZG_EFFICIENCY_H

#include "ref/ledger/ledger.h"

#include <jansson.h>

#include <stdbool.h>

enum efficiency_state { PARAMS_AND_GRADIENTS, OPTIMIZER_STATES, ACTIVATIONS, EFFICIENCY_STATE_COUNT };

// What one rank moves and computes in a step.
struct efficiency_step {
    double flops;                    // the recomputation of activations included
    double flops_per_s;              // that it computes where nothing moves: the peak
    double bytes[LANE_COUNT];        // that move, all kinds together
    double optimizer_bytes;          // of them, of optimizer states: one half read from NVMe, the other written
    double activation_bytes;         // of them, of activations: so many down, and so many up
    double bytes_per_s[LANE_COUNT];  // of the lanes, each by itself; of those with bytes
};

struct efficiency {
    // Of the link on its way that takes longest: of all ranks' collectives, of copies between device and host, or of
    // transfers between host and NVMe. 0 bytes: nothing moves, and the efficiency is 1.
    struct {
        double bytes, bytes_per_s, efficiency;
    } states[EFFICIENCY_STATE_COUNT];
    double predicted;
};

void efficiency_predict(const struct efficiency_step *step, struct efficiency *out);

// RECORDS.md, "efficiency". step_ms is what was measured. Null: no memory.
json_t *efficiency_json(const struct efficiency_step *step, const struct efficiency *efficiency, double step_ms);

// Of the step that was measured: what its operations would take at the peak, over what it took.
double efficiency_measured(const struct efficiency_step *step, double step_ms);

#endif
