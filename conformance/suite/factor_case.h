// SPDX-License-Identifier: Apache-2.0
// A case from a vector of factors: the vector says what happens in it, a seed draws the rest, which is shapes, places,
// names, hyper-parameters and gradients. Nothing in it rounds but the optimizer and the clip coefficient, which is no
// power of two.
#pragma once

#include "conformance/cases/case.h"
#include "conformance/suite/factor.h"

// Makes the case TOPIC.w2.s1.fp32, with its world, stage and precision; one with a checkpoint is two, .save and
// .resume. The topic is of at most 40 characters. Returns how many there are. The vector must be complete and legal;
// equal arguments make equal cases.
int factor_case(const struct factor_vector *vector, uint64_t seed, const char *topic, struct check_case out[2]);

enum { FACTOR_CHECKPOINT_STEP = 2 };

// The draws of one case, one after the other.
struct factor_dice {
    uint64_t key, count;
};

int factor_roll(struct factor_dice *dice, int count);  // evenly from 0 to count - 1

// Appends the tensors that a vector asks for, and names them. The case has its steps and micro-steps already.
void factor_tensors(struct check_case *c, struct factor_dice *dice, const struct factor_vector *vector);
