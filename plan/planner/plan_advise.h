// SPDX-License-Identifier: Apache-2.0
// Advice for a plan that does not fit: the smallest changes that make it fit.
#ifndef ZG_PLAN_ADVISE_H
#define ZG_PLAN_ADVISE_H

#include "plan/planner/plan_choice.h"

#include <stdio.h>

// Tries changes of the configuration and prints those after which the plan fits, the fastest first; then what
// plan_advise_shape finds; or that nothing does. Prints nothing if the plan fits already. ERR_MEMORY.
int plan_advise(const struct plan_options *options, const struct plan_setting *setting, const struct plan *plan,
                FILE *out);

// Finds the options after which a choice fits that does not: the fewest devices, the longest sequence, adapters in
// place of training all weights. "--world 6, --sequence-length 4096 or --lora 16"; "" if none does. ERR_MEMORY.
enum { ADVICE_BYTES = 128 };
int plan_advise_shape(const struct plan_options *options, const struct plan_machine *machine,
                      const struct plan_choice *choice, char out[ADVICE_BYTES]);

#endif
