// SPDX-License-Identifier: Apache-2.0
// Random cases: a vector of features, and a case of it (factor_case.h).
#ifndef ZG_HUNT_DRAW_H
#define ZG_HUNT_DRAW_H

#include "conformance/cases/case.h"

// The name before the first '.' of the cases of a hunt: the requirements about features together cover it.
#define HUNT_TOPIC "pair-hunt"

// Draws case `number` of a seed. Two of three cases have many features at their plainest, so that implementations of
// few features get cases, too; half of the cases are on meshes of the options (bits 1 << enum case_option), if there
// are any. Returns how many cases there are: 1, or the two halves of one that resumes.
int hunt_draw(uint64_t seed, uint64_t number, unsigned options, struct check_case out[2]);

#endif
