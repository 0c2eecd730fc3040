// SPDX-License-Identifier: Apache-2.0
// A backend for plans: one rank of a world of any size whose other ranks do not exist. It supports the collectives that
// training calls outside the executor to exchange a few numbers, and assumes that every rank has this rank's numbers.
#ifndef ZG_COMM_DRY_H
#define ZG_COMM_DRY_H

#include "ref/comm/comm.h"

// Supports all-gathers and barriers; other collectives return ERR_INTERNAL.
int comm_dry_open(int rank, int world, struct comm **out);

#endif
