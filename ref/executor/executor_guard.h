// SPDX-License-Identifier: Apache-2.0
// Runs operations of the chaos mode and detects accesses that they did not declare:
//   an access to a page without any of their spans, or a write to a page of read spans only, ends the program with a
//   message;
//   on a page that spans cover in part, a write outside of them is an error, and a read yields NaN.
// The processor cannot protect an accelerator's memory; there the chaos mode varies only the order of operations.
#ifndef ZG_EXECUTOR_GUARD_H
#define ZG_EXECUTOR_GUARD_H

#include "ref/executor/executor_internal.h"

struct executor_guard;

// Guards one rank's tier.
int executor_guard_open(struct tier *tier, int rank, struct executor_guard **out);
void executor_guard_close(struct executor_guard *guard);  // null-safe

// Runs one operation. Afterwards the pages of the tier that it did not declare stay inaccessible until
// executor_guard_lift.
int executor_guard_run(struct executor_guard *guard, const struct operation *operation);
int executor_guard_lift(struct executor_guard *guard);

#endif
