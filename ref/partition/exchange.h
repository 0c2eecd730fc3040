// SPDX-License-Identifier: Apache-2.0
// The collectives of a stage, as operations over buckets. Each cuts a bucket into pieces of at most
// reduce_bucket_elements or gather_bucket_elements elements (all ranks' parts of a piece together) and issues one
// collective per piece. Padding is not sent. The ledger counts reductions as gradients and gathers as parameters.
//
// `full` is the padded bucket on the device. A shard lies in its place there, or elsewhere.
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
    size_t reduce_bucket_elements;  // of one reduction, at most; 0: no limit
    size_t gather_bucket_elements;  // of one all-gather
};

// shard = this rank's shard of the sum over ranks of full. shard == NULL: its place in full.
int exchange_reduce_scatter(const struct exchange *exchange, const struct bucket *bucket, void *full, void *shard,
                            enum dtype dtype);

// Issues an all-gather of a few numbers on the host, of `bytes` from each rank: all + r * bytes = rank r's own. They
// take their turn among the lane's collectives, so that all ranks agree about the order.
int exchange_numbers(struct executor *executor, struct comm *comm, const void *own, void *all, size_t bytes);

// memory[count] = the sum over ranks of memory[count], a bucket or a shard, on the device or the host.
int exchange_all_reduce(const struct exchange *exchange, void *memory, size_t count, enum dtype dtype);

// full = the shards of all ranks. shard == NULL: this rank's is in its place in full.
int exchange_all_gather(const struct exchange *exchange, const struct bucket *bucket, const void *shard, void *full,
                        enum dtype dtype);

#endif
