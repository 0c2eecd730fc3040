// SPDX-License-Identifier: Apache-2.0
// The plain exchange: each verb is one collective, of gradients in the communication dtype.
#include "ref/partition/collectives.h"

#include "base/err.h"

static const struct bucket *bucket_at(const struct exchange *e, int bucket)
{
    return &e->layout->buckets[bucket];
}

// Gives a gradient the communication dtype, in a buffer, if there are buffers.
static int convert(const struct exchange *e, int bucket, struct gradient *gradient)
{
    const struct gradient given = *gradient;
    if (!e->buffers)
        return ERR_NONE;
    *gradient = (struct gradient){buffer_cache_acquire(e->buffers, bucket), e->dtype};
    return move_cast(e->move, TIER_DEVICE, given.data, given.dtype, gradient->data, e->dtype,
                     bucket_at(e, bucket)->count, false);
}

static int reduce_scatter(const struct exchange *e, int bucket, struct gradient *gradient, struct gradient goal)
{
    const struct bucket *b = bucket_at(e, bucket);
    TRY(convert(e, bucket, gradient));
    void *full = gradient->data;
    gradient->data = goal.data && goal.dtype == e->dtype
                         ? goal.data
                         : (char *)full + bucket_shard_begin(b, comm_rank(e->comm)) * dtype_bytes(e->dtype);
    return exchange_reduce_scatter(e, b, full, gradient->data, e->dtype);
}

static int all_reduce(const struct exchange *e, int bucket, struct gradient full)
{
    struct gradient sum = full;
    TRY(convert(e, bucket, &sum));
    TRY(exchange_all_reduce(e, sum.data, bucket_at(e, bucket)->count, e->dtype));
    if (sum.data == full.data)
        return ERR_NONE;
    return move_cast(e->move, TIER_DEVICE, sum.data, e->dtype, full.data, full.dtype, bucket_at(e, bucket)->count,
                     false);
}

static int all_gather(const struct exchange *e, int bucket, const void *shard, void *full, enum dtype dtype)
{
    return exchange_all_gather(e, bucket_at(e, bucket), shard, full, dtype);
}

const struct exchange_verbs exchange_plain = {
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_gather = all_gather,
};
