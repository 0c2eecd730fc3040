// SPDX-License-Identifier: Apache-2.0
// The arithmetic of groups: which ranks act together on a mesh of replicate x shard x tensor x pipeline ranks. Ranks
// are numbered as Megatron-LM numbers them (megatron/core/parallel_state.py, RankGenerator with its default order
// "tp-cp-ep-dp-pp"): tensor is the fastest coordinate, then data, then pipeline. Data is shard x replicate, shard
// faster, as in PyTorch's init_device_mesh(("replicate", "shard")) and DeepSpeed's MiCS:
//
//   rank = tensor + T x (shard + S x (replicate + R x pipeline))
//
// Experts add no ranks: they are cut over the ranks of data parallelism, which are expert x expert data, expert faster.
//
// The ranks of a group are a stride apart, and so all groups of a kind are one pair of numbers: size and stride.
#pragma once

// Degrees; each is 1 where it is not given.
struct mesh {
    int replicate, shard, tensor, pipeline, expert;
};

enum mesh_kind {
    MESH_TENSOR,       // cuts each layer
    MESH_SHARD,        // partitions model states, ZeRO
    MESH_REPLICATE,    // the ranks with the same shard of everything
    MESH_DATA,         // over which gradients are averaged: shard x replicate
    MESH_PIPELINE,     // holds the layers, one part after the other
    MESH_EXPERT,       // holds all experts together
    MESH_EXPERT_DATA,  // the ranks with the same experts
    MESH_KIND_COUNT
};

enum { MESH_DEGREE_MAX = 1 << 20, MESH_TEXT_BYTES = 96 };

// Parses "replicate=R,shard=S,tensor=T,pipeline=P,expert=E": any of them, in any order. ERR_USAGE.
int mesh_parse(const char *text, struct mesh *out);

// Writes the degrees above 1 in the form that mesh_parse reads; "shard=1" if there are none. Returns out.
const char *mesh_text(const struct mesh *mesh, char out[MESH_TEXT_BYTES]);

// replicate x shard x tensor x pipeline.
int mesh_world(const struct mesh *mesh);

// tensor x pipeline: the parts that the model is cut into. Each is trained by data parallelism of its own.
int mesh_parts(const struct mesh *mesh);

// The mesh of the ranks that train one part of the model: the degrees of data parallelism alone.
struct mesh mesh_of_data(const struct mesh *mesh);

// ERR_USAGE: `world` is not the mesh's number of ranks, or the experts' degree does not divide data parallelism's.
int mesh_check_world(const struct mesh *mesh, int world);

// ERR_USAGE: a degree does not divide what it cuts: tensor the attention heads, pipeline the layers, expert the
// experts. 0 heads, layers or experts: the model has none, and the degree must be 1.
int mesh_check_model(const struct mesh *mesh, int layers, int heads, int experts);

const char *mesh_kind_name(enum mesh_kind kind);

// Ranks of each group of that kind, and the number of groups.
int mesh_group_size(const struct mesh *mesh, enum mesh_kind kind);
int mesh_group_count(const struct mesh *mesh, enum mesh_kind kind);

// The group that a rank belongs to, and its index there: the rank's coordinate.
int mesh_group_of(const struct mesh *mesh, enum mesh_kind kind, int rank);
int mesh_index_in(const struct mesh *mesh, enum mesh_kind kind, int rank);

// The rank with that index in a group.
int mesh_rank_at(const struct mesh *mesh, enum mesh_kind kind, int group, int index);
