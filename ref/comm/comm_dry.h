// SPDX-License-Identifier: Apache-2.0
// A backend for plans: one rank of a world of any size whose other ranks do not exist. It supports the collectives that
// training calls outside the executor to exchange a few numbers, and assumes that every rank has this rank's numbers.
#ifndef ZG_COMM_DRY_H
#define ZG_COMM_DRY_H

#include "ref/comm/comm.h"

// Called for each collective before it returns, with the bytes that pass each rank in a ring. The collective returns
// its error. May be null.
typedef int comm_dry_call(void *context, size_t bytes);

// Supports all-gathers and barriers; other collectives return ERR_INTERNAL.
int comm_dry_open(int rank, int world, comm_dry_call *call, void *context, struct comm **out);

#endif
