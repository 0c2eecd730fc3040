// SPDX-License-Identifier: Apache-2.0
// A case as a model of the reference: the loss is the sum of NAME x gradient with the case's gradients, read from its
// files. Layers use one to three parameters each, in model order; a tied parameter is used by the layer of its own
// place in that order, too. The model can keep the parameters that forward receives, for the report of what each
// micro-step used.
#pragma once

#include "conformance/cases/case.h"
#include "ref/model/model.h"

struct scripted;

struct scripted_setting {
    const struct check_case *c;  // outlives it
    const char *folder;          // the case's
    // The case's steps before the run's first: the run's step K is the case's step before_steps + K. 0, unless a run
    // begins anew in the middle.
    int before_steps;
    bool keeps_seen;
};

// Reads init.safetensors (but for a resuming case: its parameters are zeros) and all gradients. ERR_USAGE names the
// file and the tensor that is missing or not as the case says.
int scripted_open(const struct scripted_setting *setting, struct scripted **out);
void scripted_close(struct scripted *scripted);  // null-safe

// Valid until scripted_close.
const struct model *scripted_model(const struct scripted *scripted);

// The model's index of a parameter of the case; for a tied parameter, its owner's.
int scripted_param(const struct scripted *scripted, int param);

// The parameters that a rank's forward of a micro-step used in the current step, by the case's parameter, in the
// precision. Only with keeps_seen.
const void *const *scripted_seen(const struct scripted *scripted, int rank, int micro);
