// SPDX-License-Identifier: Apache-2.0
// The collectives that the verbs of an exchange are made of, over any bucket.
//
// Each cuts a bucket into pieces of at most reduce_bucket_elements or gather_bucket_elements elements (all ranks' parts
// of a piece together) and issues one collective per piece. Padding is not sent. The ledger counts reductions as
// gradients and gathers as parameters. `full` is the padded bucket on the device. A shard lies in its place there, or
// elsewhere.
#pragma once

#include "ref/partition/exchange.h"

// shard = this rank's shard of the sum over ranks of full. shard == NULL: its place in full.
int exchange_reduce_scatter(const struct exchange *exchange, const struct bucket *bucket, void *full, void *shard,
                            enum dtype dtype);

// memory[count] = the sum over ranks of memory[count], a bucket or a shard, on the device or the host.
int exchange_all_reduce(const struct exchange *exchange, void *memory, size_t count, enum dtype dtype);

// full = the shards of all ranks. shard == NULL: this rank's is in its place in full.
int exchange_all_gather(const struct exchange *exchange, const struct bucket *bucket, const void *shard, void *full,
                        enum dtype dtype);

// Issues an all-gather of a few numbers on the host, of `bytes` from each rank: all + r * bytes = rank r's own. They
// take their turn among the lane's collectives, so that all ranks agree about the order.
int exchange_numbers(struct executor *executor, struct comm *comm, const void *own, void *all, size_t bytes);
