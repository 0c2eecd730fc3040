// SPDX-License-Identifier: Apache-2.0
// The collectives of a stage, as operations over buckets: each cuts a bucket in pieces of at most bucket_elements
// elements (all ranks' parts of a piece together) and issues one collective a piece. Only real elements travel.
// What they send is counted as for gradients (the reductions) or for parameters (the gather).
// full is the padded bucket; a shard is where it begins in there, or lies elsewhere.
#ifndef ZG_EXCHANGE_H
#define ZG_EXCHANGE_H

#include "ref/comm/comm.h"
#include "ref/executor/executor.h"
#include "ref/partition/layout.h"

#include <stdbool.h>
#include <stddef.h>

struct exchange {
    struct comm *comm;
    struct executor *executor;
    size_t reduce_bucket_elements;  // elements a reduction; 0: no limit
    size_t gather_bucket_elements;
};

// shard (this rank's, of the sum over ranks of full). shard == NULL: in place, in this rank's shard of full.
int exchange_reduce_scatter(const struct exchange *exchange, const struct bucket *bucket, void *full, void *shard,
                            enum dtype dtype);

// full = the sum over ranks of full.
int exchange_all_reduce(const struct exchange *exchange, const struct bucket *bucket, void *full, enum dtype dtype);

// full = every rank's shard. shard == NULL: in place.
int exchange_all_gather(const struct exchange *exchange, const struct bucket *bucket, const void *shard, void *full,
                        enum dtype dtype);

#endif
