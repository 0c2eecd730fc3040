// SPDX-License-Identifier: Apache-2.0
// The collectives of a stage, as operations over bundles: each cuts a bundle in pieces of at most bucket_count
// elements (all ranks' parts of a piece together) and issues one collective a piece. Only real elements travel.
// What they send is counted as for gradients (the reductions) or for parameters (the gather).
// whole is the padded bundle; a share is where it begins in there, or lies elsewhere.
#ifndef ZG_EXCHANGE_H
#define ZG_EXCHANGE_H

#include "ref/comm/comm.h"
#include "ref/flow/flow.h"
#include "ref/partition/shard.h"

#include <stdbool.h>
#include <stddef.h>

struct exchange {
    struct comm *comm;
    struct flow *flow;
    size_t reduce_bucket_count;  // elements a reduction; 0: no limit
    size_t gather_bucket_count;
};

// share (this rank's, of the sum over ranks of whole). share == NULL: in place, in this rank's share of whole.
int exchange_reduce_scatter(const struct exchange *exchange, const struct bundle *bundle, void *whole, void *share,
                            enum dtype dtype);

// whole = the sum over ranks of whole.
int exchange_all_reduce(const struct exchange *exchange, const struct bundle *bundle, void *whole, enum dtype dtype);

// whole = every rank's share. share == NULL: in place.
int exchange_all_gather(const struct exchange *exchange, const struct bundle *bundle, const void *share, void *whole,
                        enum dtype dtype);

#endif
