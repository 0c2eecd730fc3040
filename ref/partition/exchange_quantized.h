// SPDX-License-Identifier: Apache-2.0
// The collectives of ZeRO++, as operations over buckets whose shards are whole blocks (layout_rule.block_elements).
// Values travel packed (ref/recipe/quantize.h); the ledger counts codes and scales.
#ifndef ZG_EXCHANGE_QUANTIZED_H
#define ZG_EXCHANGE_QUANTIZED_H

#include "ref/partition/exchange.h"

// qwZ (ZeRO++, section 3.1): as exchange_all_gather, but every rank packs its shard in 8 bits, the packed shards are
// gathered, and full receives what they unpack to, this rank's own shard included, rounded to dtype. A piece has
// gather_bucket_elements packed bytes at most. packed: memory on the device for the packed bucket, of
// quantize_bytes(padded_count) bytes. shard may be in its place in full.
int exchange_all_gather_quantized(const struct exchange *exchange, const struct bucket *bucket, const void *shard,
                                  void *full, enum dtype dtype, size_t block, void *packed);

#endif
