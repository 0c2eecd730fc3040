// SPDX-License-Identifier: Apache-2.0
// The shape of the machine in a `run` record.
#ifndef ZG_MACHINE_SHAPE_H
#define ZG_MACHINE_SHAPE_H

#include "results/record/record_shape.h"

// Of bytes and of parameters: 2^53 - 1, the largest integer that every JSON reader represents exactly.
#define COUNT_MAX 9007199254740991.0

extern const struct shape_field machine_fields[];

#endif
