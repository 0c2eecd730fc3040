// SPDX-License-Identifier: Apache-2.0
// A stage on a mesh of replicas: states are partitioned over the ranks of a shard group, and every group has a copy of
// all of them. This is FSDP's hybrid sharding (HSDP) and MiCS. Gradients are summed in two hops (MiCS, "2-hop gradient
// synchronization"): a reduce-scatter within the group, as in the plain stage, in every micro-step; and once a step,
// after the last micro-step, an all-reduce of each shard over the ranks that hold it.
#include "ref/stage/stage_internal.h"

#include "base/err.h"
#include "ref/stage/stage_quantized.h"

// hpZ (ZeRO++, section 3.2) is another use of groups: states are partitioned over the whole shard group, and
// consecutive ranks of it hold a second copy of the parameters together, from which backward gathers (zero3.c).

// Expert parallelism is a third: the ranks of data parallelism are expert x expert data. An expert group holds all
// experts together, and exchanges tokens in forward and backward, so that a rank's gradient of its experts is already a
// sum over the group. It is reduced, and its states are partitioned, among the ranks with the same experts. It is a sum
// over all ranks of data parallelism all the same, by whose number the update divides it. Beside replicas a shard group
// has all experts, and its ranks with the same ones share their states; a rank's replicas have the same shard of them.

// Makes a world of the ranks that share this rank's group of that kind.
static int split(struct stage *stage, enum mesh_kind kind, enum ledger_group group, struct comm **out)
{
    const struct mesh *mesh = &stage->mesh;
    struct comm *world = stage->setting.comm;
    int members[mesh_group_size(mesh, kind)], number = mesh_group_of(mesh, kind, comm_rank(world));
    for (int i = 0; i < mesh_group_size(mesh, kind); i++)
        members[i] = mesh_rank_at(mesh, kind, number, i);
    TRY(comm_split(world, members, mesh_group_size(mesh, kind), out));
    comm_count_in(*out, stage->setting.ledger);
    comm_count_for(*out, group);
    return ERR_NONE;
}

int stage_split_shards(struct stage *stage, enum ledger_group group, int ranks, int from, int step, struct comm **out)
{
    int members[ranks];
    for (int i = 0; i < ranks; i++)
        members[i] = from + i * step;
    TRY(comm_split(stage->shard_comm, members, ranks, out));
    comm_count_in(*out, stage->setting.ledger);
    comm_count_for(*out, group);
    return ERR_NONE;
}

int stage_open_groups(struct stage *stage)
{
    const struct stage_setting *setting = &stage->setting;
    const struct config *config = setting->config;
    const struct mesh mesh = config_mesh(config, comm_world(setting->comm));
    stage->mesh = mesh_of_data(&mesh);
    stage->shard_comm = setting->comm;
    if (stage->mesh.replicate > 1) {
        TRY(split(stage, MESH_REPLICATE, GROUP_REPLICATE, &stage->replica_comm));
        TRY(split(stage, MESH_SHARD, GROUP_SHARD, &stage->shard_comm));
    }
    stage->exchange = (struct exchange){stage->shard_comm, setting->executor, config->reduce_bucket_size,
                                        config->allgather_bucket_size};
    int rank = comm_rank(stage->shard_comm), ranks = comm_world(stage->shard_comm);
    int second = config->secondary_ranks, experts = stage->mesh.expert;
    if (second > 1)
        TRY(stage_split_shards(stage, GROUP_SECONDARY, second, rank / second * second, 1, &stage->secondary_comm));
    stage->replicas = stage->secondary = stage->experts = stage->exchange;
    stage->replicas.comm = stage->replica_comm;
    stage->secondary.comm = stage->secondary_comm;
    if (experts > 1) {
        TRY(stage_split_shards(stage, GROUP_EXPERT, experts, rank / experts * experts, 1, &stage->expert_comm));
        TRY(stage_split_shards(stage, GROUP_EXPERT_DATA, ranks / experts, rank % experts, experts,
                               &stage->expert_data_comm));
    }
    stage->experts.comm = stage->expert_data_comm;
    return config->quantized_gradients ? stage_open_nodes(stage) : ERR_NONE;
}

void stage_close_groups(struct stage *stage)
{
    comm_close(stage->secondary_comm);
    comm_close(stage->node_comm);
    comm_close(stage->across_comm);
    comm_close(stage->expert_data_comm);
    comm_close(stage->expert_comm);
    if (stage->shard_comm != stage->setting.comm)
        comm_close(stage->shard_comm);
    comm_close(stage->replica_comm);
}

const struct exchange *stage_exchange(const struct stage *stage, int bucket)
{
    return stage->layout.buckets[bucket].expert ? &stage->experts : &stage->exchange;
}

int stage_expert_shards(const struct stage *stage, int shards)
{
    if (!stage->expert_data_comm)
        return 0;
    return shards > 1 ? comm_world(stage->expert_data_comm) : 1;
}

bool stage_sums_replicas(const struct stage *stage)
{
    return stage->replica_comm && stage_last_micro_step(stage);
}

bool stage_is_in_group_of_one(const struct stage *stage, int bucket)
{
    return stage->replica_comm && comm_world(stage_exchange(stage, bucket)->comm) == 1;
}

int stage_sum_replicas(struct stage *stage, int bucket, void *shard)
{
    size_t count = bucket_shard_real(&stage->layout.buckets[bucket], stage_shard(stage, bucket));
    return exchange_all_reduce(&stage->replicas, shard, count, stage->setting.config->communication_dtype);
}

int stage_sum_kept_replicas(struct stage *stage, int bucket, struct location kept, void *wire)
{
    const struct config *config = stage->setting.config;
    enum dtype dtype = config->accumulation_dtype, communication = config->communication_dtype;
    size_t count = bucket_shard_real(&stage->layout.buckets[bucket], stage_shard(stage, bucket));
    if (dtype == communication)
        return stage_sum_replicas(stage, bucket, kept.address);
    TRY(move_cast(&stage->move, kept.tier, kept.address, dtype, wire, communication, count, false));
    TRY(stage_sum_replicas(stage, bucket, wire));
    return move_cast(&stage->move, kept.tier, wire, communication, kept.address, dtype, count, false);
}
