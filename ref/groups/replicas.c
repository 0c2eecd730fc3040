// SPDX-License-Identifier: Apache-2.0
// Replicas: states are partitioned over the ranks of a shard group, and every group has a copy of all of them, bit by
// bit. This is FSDP's hybrid sharding (HSDP) and MiCS. For shards and buckets, "rank" and "world" mean the group's.
//
// Gradients are summed in two hops (MiCS, "2-hop gradient synchronization"): a reduce-scatter within the group, as in
// the plain stage, in every micro-step; and once a step, after the last micro-step, an all-reduce of each shard over
// the ranks that hold it. Where a step has one reduction, the second hop follows it immediately.
#include "ref/groups/groups_internal.h"
#include "ref/partition/collectives.h"

#include "base/err.h"

// The second hop: shard = its sum over replicas, in the communication dtype.
static int sum_replicas(const struct exchange *e, int bucket, void *shard)
{
    const struct groups *g = e->groups;
    const struct bucket *b = &g->setting.layout->buckets[bucket];
    size_t count = bucket_shard_real(b, bucket_is_replicated(b) ? 0 : comm_rank(e->comm));
    struct exchange among_replicas = *e;
    among_replicas.comm = g->replica_comm;
    return exchange_all_reduce(&among_replicas, shard, count, e->dtype);
}

// With one reduction a step the second hop follows the first; with more, all additions to the shard are in between.
static bool reduces_once(const struct groups *g)
{
    return !g->setting.reduces_each_micro_step || g->setting.config->accumulation == 1;
}

// With one rank in a shard group this is data parallelism, which has no first hop: with several reductions a step its
// gradients keep their dtype until the second hop.
static int reduce_scatter(const struct exchange *e, int bucket, struct gradient *gradient, struct gradient goal)
{
    bool once = reduces_once(e->groups);
    if (comm_world(e->comm) == 1 && !once)
        return ERR_NONE;
    TRY(exchange_plain.reduce_scatter(e, bucket, gradient, goal));
    return once ? sum_replicas(e, bucket, gradient->data) : ERR_NONE;
}

size_t groups_shard_element_bytes(const struct groups *g, int bucket)
{
    size_t sent = dtype_bytes(g->setting.config->communication_dtype);
    size_t made = dtype_bytes(g->setting.config->precision);
    bool alone = g->replica_comm && comm_world(g->exchange_of[bucket]->comm) == 1;
    return alone && made > sent ? made : sent;
}

// The second hop sends the communication dtype, in the memory of the last micro-step's shard.
static int finish(const struct exchange *e, int bucket, struct location sum, struct gradient shard)
{
    const struct groups *g = e->groups;
    const struct bucket *b = &g->setting.layout->buckets[bucket];
    enum dtype dtype = g->setting.config->accumulation_dtype;
    size_t count = bucket_shard_real(b, bucket_is_replicated(b) ? 0 : comm_rank(e->comm));
    void *sent = shard.data;
    if (dtype == e->dtype)
        return sum_replicas(e, bucket, sum.address);
    if (sum.tier == TIER_DEVICE && shard.dtype != e->dtype)
        sent = buffer_cache_acquire(e->buffers, bucket);
    TRY(move_cast(e->move, sum.tier, sum.address, dtype, sent, e->dtype, count, false));
    TRY(sum_replicas(e, bucket, sent));
    return move_cast(e->move, sum.tier, sent, e->dtype, sum.address, dtype, count, false);
}

// Makes a world of the ranks that share this rank's group of that kind.
static int split(struct groups *g, enum mesh_kind kind, enum ledger_group group, struct comm **out)
{
    struct comm *world = g->setting.world;
    int ranks = mesh_group_size(&g->mesh, kind), number = mesh_group_of(&g->mesh, kind, comm_rank(world));
    int members[ranks];
    for (int i = 0; i < ranks; i++)
        members[i] = mesh_rank_at(&g->mesh, kind, number, i);
    TRY(comm_split(world, members, ranks, out));
    comm_count_in(*out, g->setting.move->ledger);
    comm_count_for(*out, group);
    return ERR_NONE;
}

int replicas_open(struct groups *g)
{
    if (g->mesh.replicate == 1)
        return ERR_NONE;
    g->verbs.reduce_scatter = reduce_scatter;
    g->verbs.finish = finish;
    TRY(split(g, MESH_REPLICATE, GROUP_REPLICATE, &g->replica_comm));
    return split(g, MESH_SHARD, GROUP_SHARD, &g->shard_comm);
}
