// SPDX-License-Identifier: Apache-2.0
// The mesh of a hunt's case. The numbers of a case belong to its micro-batches, so that a mesh can be put on a case,
// and be made smaller or taken away, while they stay.
#pragma once

#include "conformance/cases/case.h"

// Puts a drawn mesh, with degrees of these options alone (bits 1 << enum case_option), on a case without one, or on its
// two halves: each half has as many micro-batches as it had ranks. Leaves them as they are where no mesh fits.
void hunt_mesh_draw(uint64_t key, unsigned options, struct check_case parts[], int part_count);

// Sets the number of micro-batches, of a case with a mesh or without. False, and no change: the mesh does not allow it.
bool hunt_mesh_resize(struct check_case *c, int batches);

// Gives both halves the micro-batches of the one that has fewer, and says whether that changes anything.
bool hunt_mesh_same_ranks(struct check_case halves[2]);

// Features to leave out, as in edit_feature.c: each sets a degree to 1, and what it cut to whole; hunt_mesh_none all.
void hunt_mesh_none(struct check_case *c);
void hunt_mesh_half_sequence(struct check_case *c);  // half of the ranks that share a micro-batch, if they are even
void hunt_mesh_one_replica(struct check_case *c);
void hunt_mesh_shards_of_one(struct check_case *c);  // where there are replicas: as many as data ranks
void hunt_mesh_no_tensor(struct check_case *c);
void hunt_mesh_less_tensor(struct check_case *c);  // half of the tensor ranks
void hunt_mesh_no_pipeline(struct check_case *c);
void hunt_mesh_no_experts(struct check_case *c);

// The name before the first '.' of the cases of a hunt: the requirements about features together cover it.
#define HUNT_TOPIC "pair-hunt"

// Draws case `number` of a seed. Two of three cases have many features at their plainest, so that implementations of
// few features get cases, too; half of the cases are on meshes of the options (bits 1 << enum case_option), if there
// are any. Returns how many cases there are: 1, or the two halves of one that resumes.
int hunt_draw(uint64_t seed, uint64_t number, unsigned options, struct check_case out[2]);
