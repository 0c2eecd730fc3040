// SPDX-License-Identifier: Apache-2.0
// A case from a vector of factors: the vector says what happens in it, a seed draws the rest, which is shapes, places,
// names, hyper-parameters and gradients. Nothing in it rounds but the optimizer and the clip coefficient, which is no
// power of two.
#ifndef ZG_FACTOR_CASE_H
#define ZG_FACTOR_CASE_H

#include "conformance/cases/case.h"
#include "conformance/suite/factor.h"

// Makes the case TOPIC.w2.s1.fp32, with its world, stage and precision; one with a checkpoint is two, .save and
// .resume. The topic is of at most 40 characters. Returns how many there are. The vector must be complete and legal;
// equal arguments make equal cases.
int factor_case(const struct factor_vector *vector, uint64_t seed, const char *topic, struct check_case out[2]);

#endif
