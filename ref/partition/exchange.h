// SPDX-License-Identifier: Apache-2.0
// The communication of ZeRO (ZeRO, section 7). Every bucket has an exchange, with verbs that issue operations among the
// ranks that share the bucket. A stage calls the verbs and does not know how many hops they make. In the plain exchange
// each verb is one collective; ref/groups has exchanges of several.
#pragma once

#include "ref/comm/comm.h"
#include "ref/executor/move.h"
#include "ref/partition/buffer_cache.h"
#include "ref/partition/layout.h"

#include <stddef.h>

// A gradient on the device: a padded bucket, or this rank's shard of one.
struct gradient {
    void *data;
    enum dtype dtype;
};

struct exchange;

struct exchange_verbs {
    // Replaces a bucket by this rank's shard of the sum over ranks. The shard lies in the bucket's memory or a buffer;
    // in `goal` if that has the shard's dtype. goal.data may be null.
    int (*reduce_scatter)(const struct exchange *exchange, int bucket, struct gradient *gradient, struct gradient goal);
    // After the last micro-step, where shards of several were added: `sum`, on the device or the host and in the
    // accumulation dtype, becomes complete. The last shard, on the same tier, is free memory. Null: the sum is
    // complete.
    int (*finish)(const struct exchange *exchange, int bucket, struct location sum, struct gradient shard);
    // full = its sum over ranks.
    int (*all_reduce)(const struct exchange *exchange, int bucket, struct gradient full);
    // full = the parameters of all ranks' shards. shard == NULL: this rank's is in its place in full.
    int (*all_gather)(const struct exchange *exchange, int bucket, const void *shard, void *full, enum dtype dtype);
    // Forward has gathered `full`: the exchange keeps what backward gathers again. Null, both: backward gathers shards.
    int (*keep)(const struct exchange *exchange, int bucket, const void *full, enum dtype dtype);
    int (*gather_kept)(const struct exchange *exchange, int bucket, void *full, enum dtype dtype);
};

struct exchange {
    const struct exchange_verbs *verbs;
    const struct layout *layout;
    struct comm *comm;
    struct executor *executor;
    size_t reduce_bucket_elements;  // of one reduction, at most; 0: no limit
    size_t gather_bucket_elements;  // of one all-gather
    const struct move *move;        // converts gradients to
    enum dtype dtype;               // the communication dtype,
    struct buffer_cache *buffers;   // in these; null: they have it already
    void *groups;                   // of ref/groups
};

extern const struct exchange_verbs exchange_plain;
