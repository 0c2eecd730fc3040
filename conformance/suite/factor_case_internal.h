// SPDX-License-Identifier: Apache-2.0
// What the parts of factor_case share.
#ifndef ZG_FACTOR_CASE_INTERNAL_H
#define ZG_FACTOR_CASE_INTERNAL_H

#include "conformance/suite/factor_case.h"

enum { FACTOR_CHECKPOINT_STEP = 2 };

// The draws of one case, one after the other.
struct factor_dice {
    uint64_t key, count;
};

int factor_roll(struct factor_dice *dice, int count);  // evenly from 0 to count - 1

// Appends the tensors that a vector asks for, and names them. The case has its steps and micro-steps already.
void factor_tensors(struct check_case *c, struct factor_dice *dice, const struct factor_vector *vector);

#endif
