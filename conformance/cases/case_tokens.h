// SPDX-License-Identifier: Apache-2.0
// How many tokens each micro-batch has in each micro-step. In a case that has them a gradient is the sum over its
// tokens, and that of a step is the sum over micro-batches and micro-steps, divided by all tokens of the step. Ranks
// that have the same micro-batches, as tensor ranks and the stages of a pipeline, count them once.
#pragma once

#include "conformance/cases/case.h"

// Of a micro-batch, from 0 (a data rank's own, unless sequences are cut), in a micro-step, from 0, which may be beyond
// the step's last; and of all ranks and micro-steps of a step.
uint32_t case_tokens(const struct check_case *c, int step, int micro, int batch);
// Of a rank of the world: those of its micro-batch, or, where ranks divide its sequences among them, a part: an odd one
// more than the others on the first.
uint32_t case_rank_tokens(const struct check_case *c, int step, int micro, int rank);
uint64_t case_all_tokens(const struct check_case *c, int step);

// Sets a count. The case has tokens, and not more places than CASE_TOKENS_MAX.
void case_set_tokens(struct check_case *c, int step, int micro, int batch, uint32_t count);

// True if steps, micro-steps and micro-batches have no more places for counts than a case can hold.
bool case_has_room_for_tokens(const struct check_case *c);

// The number that a step's sum of gradients is divided by: all tokens, or 1 where there are none; in a case without
// tokens micro-batches x micro-steps.
double case_mean_count(const struct check_case *c, int step);
