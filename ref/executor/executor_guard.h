// SPDX-License-Identifier: Apache-2.0
// Runs operations of the chaos mode so that an access they did not declare does not stay silent:
//   on a page that none of its spans touches, or a write where all spans are reads: the program ends, with a message
//   on the rest of a page at whose border a span ends: a write is an error, a read yields NaN
// An accelerator's memory has no pages that this processor could protect: there only the order of operations is tried.
#ifndef ZG_EXECUTOR_GUARD_H
#define ZG_EXECUTOR_GUARD_H

#include "ref/executor/executor_internal.h"

struct executor_guard;

// Guards one rank's tier.
int executor_guard_open(struct tier *tier, int rank, struct executor_guard **out);
void executor_guard_close(struct executor_guard *guard);  // null-safe

// Runs one operation. Afterwards all of the tier that it did not declare is inaccessible, until executor_guard_lift.
int executor_guard_run(struct executor_guard *guard, const struct operation *operation);
int executor_guard_lift(struct executor_guard *guard);

#endif
