// SPDX-License-Identifier: Apache-2.0
// The numbers of a case as literals of Python, each a line.
#ifndef ZG_HUNT_SCRIPT_NUMBERS_H
#define ZG_HUNT_SCRIPT_NUMBERS_H

#include "conformance/hunt/hunt_case.h"

#include <stdio.h>

// The fewest digits that read back to the same number; a whole one keeps a point, so that it is a float.
void script_real(FILE *out, double value);

// INIT: by name. GRADS: by step, micro-step, rank, name. GROUPS: for torch.optim, with names for parameters; and LR, by
// step and group.
void script_initial(FILE *out, const struct hunt_case *h);
void script_gradients(FILE *out, const struct hunt_case *h);
void script_groups(FILE *out, const struct check_case *c);

#endif
