// SPDX-License-Identifier: Apache-2.0
// The machine of a run or of a host, as a table for record_check.c.
#ifndef ZG_RECORD_MACHINE_H
#define ZG_RECORD_MACHINE_H

#include "results/record/record_shape.h"

// Of bytes and of parameters: 2^53 - 1, the largest integer that every JSON reader represents exactly.
#define COUNT_MAX 9007199254740991.0

extern const struct shape_field record_machine_fields[];  // ended by zeros

#endif
