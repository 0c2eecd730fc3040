// SPDX-License-Identifier: Apache-2.0
// The collectives of ZeRO++, as operations over buckets whose shards are whole blocks (layout_rule.block_elements).
// Values travel packed (ref/recipe/quantize.h); the ledger counts codes and scales.
#pragma once

#include "ref/partition/exchange.h"

// qwZ (ZeRO++, section 3.1): as exchange_all_gather, but every rank packs its shard in 8 bits, the packed shards are
// gathered, and full receives what they unpack to, this rank's own shard included, rounded to dtype. A piece has
// gather_bucket_elements packed bytes at most. packed: memory on the device for the packed bucket, of
// quantize_bytes(padded_count) bytes. shard may be in its place in full.
int exchange_all_gather_quantized(const struct exchange *exchange, const struct bucket *bucket, const void *shard,
                                  void *full, enum dtype dtype, size_t block, void *packed);

// The same in E4M3 (ref/recipe/e4m3.h), with one scale for the bucket, which is one parameter: every rank tells the
// others the largest magnitude of its shard, which is 0 of a shard without elements, and sends its codes. memory: on
// the device, exchange_e4m3_bytes of it.
int exchange_all_gather_e4m3(const struct exchange *exchange, const struct bucket *bucket, const void *shard,
                             void *full, enum dtype dtype, void *memory);
size_t exchange_e4m3_bytes(const struct bucket *bucket, int ranks);

// qgZ (section 3.3): the two hops of a reduce-scatter among ranks in nodes. Rank r of the world is local rank r % S of
// node r / S, for the S ranks of a node. A hop is left out where one rank takes part in it.
//   in the node     every rank packs its gradient in 4 bits, and sends each local rank l its slice of shards: of every
//                   node, the shard of that node's local rank l. The slices are summed in fp32, local ranks ascending.
//   across nodes    the sums are packed again, and each shard goes to its rank. They are summed in fp32, nodes
//                   ascending, and rounded once.
struct exchange_nodes {
    struct comm *node;    // the ranks of a node; null: each node has one rank
    struct comm *across;  // the ranks with the same local rank; null: there is one node
    struct executor *executor;
    size_t block;  // elements
};

// shard = this rank's shard of the sum, in shard_dtype. memory: on the device, exchange_nodes_bytes of it. shard may
// lie in full, which is read before; memory overlaps neither.
int exchange_reduce_quantized(const struct exchange_nodes *nodes, const struct bucket *bucket, void *full,
                              enum dtype dtype, void *shard, enum dtype shard_dtype, void *memory);
size_t exchange_nodes_bytes(const struct exchange_nodes *nodes, const struct bucket *bucket);
