// SPDX-License-Identifier: Apache-2.0
// The groups of ranks beyond one that partitions everything, and the exchanges that they make of the plain one. Which a
// bucket has is chosen once, when the layout is cut:
//
//   replicas  (HSDP, MiCS)  states are partitioned over a shard group, and every group has a copy      replicas.c
//   hpZ       (ZeRO++)      a smaller group has a second copy of the parameters for backward            hpz.c
//   qwZ, qgZ  (ZeRO++)      parameters are gathered in 8 bits, gradients summed in 4 bits in two hops   quantized.c
//   experts                 buckets of experts belong to the ranks with the same ones                   experts.c
#pragma once

#include "ref/config/config.h"
#include "ref/mesh/mesh.h"
#include "ref/partition/exchange.h"
#include "ref/tier/buffer_pool.h"
#include "ref/tier/tier.h"

#include <stdbool.h>

// All of it outlives the groups.
struct groups_setting {
    const struct config *config;
    const struct layout *layout;   // empty until it is cut
    bool reduces_each_micro_step;  // false: gradients are reduced once a step
    bool replicates_update;        // every rank holds, and updates, all optimizer states
    struct comm *world;            // the ranks that train this model
    const struct move *move;       // its ledger counts what groups send
    int layer_count;               // of the model
    struct tier *tier;
};

struct groups {
    struct groups_setting setting;
    struct mesh mesh;
    struct comm *shard_comm;               // the ranks over which states are partitioned: the world, or a group of it
    struct comm *replica_comm;             // the ranks that replicate this rank's shards; null: no replicas
    struct comm *secondary_comm;           // hpZ: the ranks that hold a second copy together; null: there is none
    struct comm *node_comm, *across_comm;  // qgZ: ranks of this node; ranks at this place of all nodes; null: alone
    struct comm *expert_comm;              // the ranks that hold all experts together; null: every rank holds all
    struct comm *expert_data_comm;         // then: the ranks of the shard group with this rank's experts
    struct exchange_verbs verbs;           // of both exchanges:
    struct exchange exchange;              // among the ranks of the shard group,
    struct exchange expert_exchange;       // and, for experts, among those that hold the same ones
    const struct exchange **exchange_of;   // by bucket; owned
    bool has_comm_buffers;
    struct buffer_cache comm_buffers;     // gradients in the communication dtype, if that is another one
    struct buffer_pool packed_gradients;  // qgZ: on their way in two hops
    struct buffer_pool packed_params;     // qwZ: on their way
    struct bucket *secondary_buckets;     // hpZ, by bucket: as the second copy is cut,
    void **secondary_params;              // and this rank's part of it; owned
};

// Makes the communicators of all groups. Collective.
int groups_open(const struct groups_setting *setting, struct groups *out);
void groups_close(struct groups *groups);

// Adds the shards of experts and the blocks of quantization to the rule by which a stage cuts its layout.
void groups_complete_rule(const struct groups *groups, struct layout_rule *rule);

// The layout is cut: chooses every bucket's exchange.
int groups_choose(struct groups *groups);

// The bucket as `ranks` ranks cut it that hold a second copy of it together. They divide the number of shards.
struct bucket bucket_secondary(const struct bucket *bucket, int ranks);

// Memory on the device: of second copies of parameters; and of buffers in which gradients and parameters travel.
int groups_allocate_copies(struct groups *groups);
int groups_allocate_buffers(struct groups *groups);

// Room for an element of a bucket's reduced shard.
size_t groups_shard_element_bytes(const struct groups *groups, int bucket);

// The ranks that must agree about the norm, null if this rank has all gradients; and whether this rank adds a bucket to
// it, of which every element counts once.
struct comm *groups_norm_comm(const struct groups *groups);
bool groups_count_in_norm(const struct groups *groups, const struct bucket *bucket);
