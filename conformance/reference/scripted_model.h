// SPDX-License-Identifier: Apache-2.0
// A case as a model of the reference: the loss is the sum of NAME x gradient with the case's gradients, read from its
// files. Layers use one to three parameters each, in model order; a tied parameter is used by the layer of its own
// place in that order, too. What forward is given is kept, so that it can be told which parameters a micro-step used.
#ifndef ZG_GIVEN_H
#define ZG_GIVEN_H

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

// Lasts as long as the given does.
const struct model *scripted_model(const struct scripted *scripted);

// The model's parameter that a parameter of the case is; that of its owner, if it is tied.
int scripted_param(const struct scripted *scripted, int param);

// Of the present step: the parameter as a rank's forward of a micro-step used it, in the precision. By the case's
// parameter.
const void *const *scripted_seen(const struct scripted *scripted, int rank, int micro);

#endif
