// SPDX-License-Identifier: Apache-2.0
// Sums in a transport's own order (`train --native-reduction`), each compared with the canonical sum.
#ifndef ZG_COMM_NATIVE_H
#define ZG_COMM_NATIVE_H

#include "ref/comm/comm.h"

// Makes later calls of reduce-scatter and all-reduce return the transport's own sums; maxima stay as they are. The
// ledger counts what the canonical collective sends. All ranks call it. ERR_USAGE: the transport has no sums of its
// own.
int comm_native_begin(struct comm *comm);

// Collective, not counted: combines the comparisons of all ranks since comm_native_begin.
int comm_native_found(struct comm *comm, struct comm_native *out);

// For backends: compares `count` elements of a sum, which begin at element `offset` of the full buffer.
void comm_native_compare(struct comm *comm, enum dtype dtype, const void *canonical, const void *native, size_t offset,
                         size_t count);

#endif
