// SPDX-License-Identifier: Apache-2.0
// How parameters are cut over ranks. A bucket is what travels together: some parameters laid end to end, padded to a
// multiple of the shards, and cut in that many equal shards; rank r owns shard r. Padding is never sent, never read
// and never updated; it only makes the shards equal.
//
// Buckets are made in the order in which backward completes gradients. Small layers are merged while they fit the
// bucket size; a layer larger than that is a bucket of its own, and its collectives are cut in pieces (exchange.h).
// A tied parameter, whose gradient stays open from its last use to its first, is a bucket of its own. Frozen and
// persistent parameters never share a bucket with others. Optimizer groups may: a shard is updated piece by piece.
#ifndef ZG_SHARD_H
#define ZG_SHARD_H

#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

struct bucket {
    const int *params;  // indices, in the order in which they lie
    int param_count;
    size_t count;               // elements of the parameters
    size_t padded_count;        // a multiple of the number of shards
    size_t shard_elements;      // padded_count / shards
    size_t offset;              // where it begins among all padded buckets
    size_t shard_offset;        // where a rank's shard begins among all its shards
    int low_layer, high_layer;  // the layers that use it
    int owner;                  // the rank whose shard is the full bucket, unpadded; -1: it is cut
    bool frozen, tied, persistent;
};

struct layout {
    int shards;        // of every trainable bucket, and of frozen ones if those are cut
    int bucket_count;  // trainable ones first
    int trainable_count;
    struct bucket *buckets;
    size_t padded_count, shard_elements;                      // of all buckets
    size_t trainable_padded_count, trainable_shard_elements;  // of the trainable ones
    int *params;                                              // owns every bucket's list
    int *bucket_of;                                           // by parameter
    size_t *offset_of;                                        // by parameter: its first element in its bucket
};

struct layout_rule {
    int shards;                    // 1: nothing is cut
    bool cut_frozen;               // frozen buckets are cut, too (else they have one shard, which every rank holds)
    bool merge_layers;             // a bucket may hold several layers
    size_t bucket_elements;        // elements a merged bucket may have
    size_t persistence_threshold;  // parameters of at most this many elements are persistent; 0: none
    size_t persistence_budget;     // elements that may be persistent in all
    bool owners_in_turn;           // nothing is cut: buckets go to the ranks in turn
};

int layout_open(const struct model *model, const struct layout_rule *rule, struct layout *out);
void layout_close(struct layout *layout);

// Real elements, without padding, of a rank's shard: the last shards may have fewer, or none.
size_t bucket_shard_real(const struct bucket *bucket, int rank);

// The same with padding: what the rank has room for; and where its shard begins in the full bucket.
size_t bucket_shard_room(const struct bucket *bucket, int rank);
size_t bucket_shard_begin(const struct bucket *bucket, int rank);

// Whether the bucket has one shard, which every rank holds.
bool bucket_is_replicated(const struct bucket *bucket);

// The part of one parameter that lies in one shard.
struct piece {
    int param;
    size_t param_index;  // its first element, in the parameter
    size_t shard_index;  // the same element, in the shard
    size_t count;
};

// The pieces of a rank's shard, in order; *next starts as 0. False when there are no more. Empty parameters have none.
bool bucket_next_piece(const struct layout *layout, const struct model *model, int bucket, int rank, int *next,
                       struct piece *out);

#endif
