// SPDX-License-Identifier: Apache-2.0
// Runs operations of the chaos mode so that an access they did not declare does not stay silent:
//   on a page that none of its spans touches, or a write where all spans are reads: the program ends, with a message
//   on the rest of a page at whose border a span ends: a write is an error, a read yields NaN
// An accelerator's memory has no pages that this processor could protect: there only the order of operations is tried.
#ifndef ZG_FLOW_GUARD_H
#define ZG_FLOW_GUARD_H

#include "ref/flow/flow_internal.h"

struct flow_guard;

// Guards one rank's tier.
int flow_guard_open(struct tier *tier, int rank, struct flow_guard **out);
void flow_guard_close(struct flow_guard *guard);  // null-safe

// Runs one operation. Afterwards all of the tier that it did not declare is inaccessible, until flow_guard_lift.
int flow_guard_run(struct flow_guard *guard, const struct operation *operation);
int flow_guard_lift(struct flow_guard *guard);

#endif
