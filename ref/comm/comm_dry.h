// SPDX-License-Identifier: Apache-2.0
// A rank of a world that is not there, of any size, for plans: the collectives outside the executor, which exchange
// some numbers, and nothing else. All other ranks have the same numbers as this one.
#ifndef ZG_COMM_DRY_H
#define ZG_COMM_DRY_H

#include "ref/comm/comm.h"

// Told of each collective before it returns: bytes that pass each rank in a ring. May be null. An error is the
// collective's.
typedef int comm_dry_call(void *context, size_t bytes);

// All-gathers and barriers; everything else is ERR_INTERNAL.
int comm_dry_open(int rank, int world, comm_dry_call *call, void *context, struct comm **out);

#endif
