// SPDX-License-Identifier: Apache-2.0
// Versions of memory and of ranges of files, for checking schedules: every byte that an operation declares to write has
// that operation as its version. An operation expects to find what the operations issued before it leave, wherever it
// reads; one that finds an older or a newer version, because something that should order the two is missing, fails.
#pragma once

#include "ref/executor/executor_internal.h"

struct executor_versions;

int executor_versions_open(int rank, struct executor_versions **out);
void executor_versions_close(struct executor_versions *versions);  // null-safe

// In the order of issue: notes what the operation expects. It has a number of its own, from 0.
int executor_versions_expect(struct executor_versions *versions, struct operation *operation);

// Before the operation runs: ERR_INTERNAL names the version that it expects and the one that is there. Afterwards what
// it writes is its version.
int executor_versions_meet(struct executor_versions *versions, const struct operation *operation);
