// SPDX-License-Identifier: Apache-2.0
// How parameters are partitioned over ranks. A bucket is a list of parameters that travel together: laid end to end,
// padded to a multiple of the number of shards, and cut into equal shards, of which rank r owns shard r. Padding only
// makes the shards equal: nothing sends, reads or updates it.
//
// Buckets follow the order in which backward completes gradients. Small layers are merged up to the bucket size. A
// larger layer is a bucket of its own, whose collectives are cut into parts (collectives.h). So is a tied parameter,
// whose gradient stays incomplete from its last use in the model to its first. Frozen and persistent parameters share
// no bucket with others, and neither do experts that have shards of their own number. Optimizer groups may share one: a
// shard is updated piece by piece. A parameter whose update is of the whole tensor is a bucket of its own, and such
// buckets go to the ranks in turn.
#pragma once

#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

struct bucket {
    const int *params;  // indices into the model's, in memory order
    int param_count;
    size_t count;               // elements of the parameters
    size_t padded_count;        // a multiple of the number of shards
    size_t shard_elements;      // padded_count / shards
    size_t offset;              // of its first element among all padded buckets
    int low_layer, high_layer;  // the first and the last layer that use it
    int owner;                  // the rank whose shard is the full bucket, unpadded; -1: every rank has a shard
    bool frozen, tied, persistent;
    bool whole;   // of one parameter, whose update is of the whole tensor
    bool expert;  // of experts, sharded over the ranks that hold the same ones
};

struct layout {
    int shards;        // of every trainable bucket but those of experts, and of frozen ones if the rule cuts them
    int bucket_count;  // trainable ones first
    int trainable_count;
    struct bucket *buckets;
    size_t padded_count, shard_elements;                      // of all buckets
    size_t trainable_padded_count, trainable_shard_elements;  // of the trainable ones
    int *params;                                              // owns every bucket's list
    int *bucket_of;                                           // by parameter
    size_t *offset_of;                                        // by parameter: its first element in its bucket
    int *layer_begin;    // by layer, and one more: its first entry in layer_buckets
    int *layer_buckets;  // the buckets of each layer, each once, in the order of the layer's parameters
};

struct layout_rule {
    int shards;                    // 1: every rank holds everything
    bool cut_frozen;               // false: frozen buckets have one shard, which every rank holds
    bool merge_layers;             // a bucket may hold several layers
    size_t bucket_elements;        // of a merged bucket, at most
    size_t persistence_threshold;  // parameters of at most this many elements are persistent; 0: none
    size_t persistence_budget;     // elements that may be persistent, all together
    bool owners_in_turn;           // full buckets go to the ranks in turn
    int expert_shards;             // of buckets of experts; 0: experts are parameters like others
    size_t block_elements;         // then shards begin on such blocks, and each parameter is a bucket; 0: no blocks
};

// The layout refers to nothing of the model. ERR_MEMORY.
int layout_open(const struct model *model, const struct layout_rule *rule, struct layout *out);
void layout_close(struct layout *layout);

// Elements of a rank's shard without padding. The last shards may have fewer than the others, or none.
size_t bucket_shard_real(const struct bucket *bucket, int rank);

// The same with padding, and the shard's first element in the full bucket.
size_t bucket_shard_room(const struct bucket *bucket, int rank);
size_t bucket_shard_begin(const struct bucket *bucket, int rank);

// True if the bucket has one shard, which every rank holds.
bool bucket_is_replicated(const struct bucket *bucket);

// The part of one parameter that lies in one shard.
struct piece {
    int param;
    size_t param_index;  // of its first element in the parameter
    size_t shard_index;  // of the same element in the shard
    size_t count;
};

// The pieces of a rank's shard, in order; *next starts as 0. False when there are no more. Empty parameters have none.
bool bucket_next_piece(const struct layout *layout, const struct model *model, int bucket, int rank, int *next,
                       struct piece *out);
