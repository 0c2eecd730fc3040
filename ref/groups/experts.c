// SPDX-License-Identifier: Apache-2.0
// Expert parallelism: the ranks of data parallelism are expert x expert data. An expert group holds all experts
// together, and exchanges tokens in forward and backward, so that a rank's gradient of its experts is already a sum
// over the group. It is reduced, and its states are partitioned, among the ranks with the same experts. The result is
// the sum over all data-parallel ranks, and the update divides by their number. With replicas, each shard group has all
// experts: its ranks with the same experts partition their states, and a rank's replicas hold the same shard.
//
// A rank's model is a part (part.h) that has some of the experts. They lie in buckets of their own, whose "rank" and
// "world" mean the ranks with the same experts.
#include "ref/groups/groups_internal.h"

#include "base/err.h"

int experts_open(struct groups *g)
{
    int rank = comm_rank(g->shard_comm), ranks = comm_world(g->shard_comm), experts = g->mesh.expert;
    if (experts == 1)
        return ERR_NONE;
    TRY(groups_split(g, GROUP_EXPERT, experts, rank / experts * experts, 1, &g->expert_comm));
    return groups_split(g, GROUP_EXPERT_DATA, ranks / experts, rank % experts, experts, &g->expert_data_comm);
}

// Where every rank has the gradients of all dense parameters, the ranks of an expert group have different experts.
struct comm *groups_norm_comm(const struct groups *g)
{
    return g->setting.replicates_update ? g->expert_comm : g->shard_comm;
}

bool groups_count_in_norm(const struct groups *g, const struct bucket *bucket)
{
    return !g->setting.replicates_update || !g->expert_comm || bucket->expert || comm_rank(g->expert_comm) == 0;
}
