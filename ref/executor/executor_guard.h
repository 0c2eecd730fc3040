// SPDX-License-Identifier: Apache-2.0
// Runs operations of the chaos mode and detects accesses that they did not declare:
//   an access to a page without any of their spans, or a write to a page of read spans only, ends the program with a
//   message;
//   on a page that spans cover in part, a write outside of them is an error, and a read yields NaN;
//   the issuing thread may touch a page while no pending operation has it: else it ends the program with a message.
// The processor cannot protect an accelerator's memory; there the chaos mode varies only the order of operations.
#pragma once

#include "ref/executor/executor_fault.h"

struct executor_guard;

// Guards one rank's tier.
int executor_guard_open(struct tier *tier, int rank, executor_touch *touch, void *context, struct executor_guard **out);
void executor_guard_close(struct executor_guard *guard);  // null-safe

// Runs one operation. Afterwards the pages of the tier that it did not declare stay inaccessible until
// executor_guard_watch or executor_guard_lift.
int executor_guard_run(struct executor_guard *guard, const struct operation *operation);

// Closes all pages to the calling thread, which issues operations: `touch` judges its accesses.
int executor_guard_watch(struct executor_guard *guard);

// Opens all pages.
int executor_guard_lift(struct executor_guard *guard);
