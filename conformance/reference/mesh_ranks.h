// SPDX-License-Identifier: Apache-2.0
// The reference where a mesh cuts the model over tensor ranks, pipeline stages or experts: all ranks of the world in
// one process, each with no more than its own parts, and every exchange between them as the group of its mesh makes it.
// Gradients are given by coordinate, so there are no products: what is here is how they are summed, scaled, measured
// and applied, and how ZeRO partitions the states of a part.
//
//   partial gradients   summed over the tensor ranks
//   a tied parameter    its gradients summed over the stages that hold it; each keeps the states of its copy
//   the mean            over replicate x shard; an expert's gradients are summed over the ranks that hold it, and
//                       divided by all data ranks, whose tokens they are of
//   states              cut over the shard group; an expert's over the ranks that hold it
//   norm, overflow      of every element once, over all ranks of the world
#pragma once

#include "conformance/cases/case_mesh.h"
#include "conformance/contract/answer.h"
#include "ref/config/config.h"
#include "ref/optimizer/scaler.h"
#include "ref/recipe/recipe.h"

// A rank's part of a parameter that is not tied: arrays of case_part_count elements, in fp32.
struct mesh_part {
    bool is_held;
    size_t count, begin, end;  // states are this rank's from begin to end
    float *model;              // as forward uses it, in the precision
    float *grad;               // over micro-steps; then the sum over ranks, too
    float *master, *exp_avg, *exp_avg_sq;
};

struct mesh_ranks {
    const struct check_case *c;
    const struct config *config;
    struct mesh mesh;
    struct mesh_part parts[CASE_WORLD_MAX][CASE_PARAM_MAX];
    const struct recipe *recipe;
    struct recipe_state states[CASE_GROUP_MAX];
    struct scaler scaler;
    uint64_t t, skipped;
    double mean_count;  // the divisor of the step's sums of gradients, without the loss scale
    bool applied;       // the last step
    double norm;        // of the last step's mean
    float divisor;      // of the sums that the mean is made of
};

// Ranks without values. c and config outlive them.
int mesh_ranks_open(const struct check_case *c, const struct config *config, struct mesh_ranks **out);
void mesh_ranks_close(struct mesh_ranks *ranks);  // null-safe

// True if a rank's states of a parameter are those that count where each element counts once: of a tied parameter the
// first stage's, of one that is the same on all tensor ranks the first one's, of replicas the first one's.
bool mesh_counts(const struct mesh_ranks *ranks, int rank, int param);

// Scatters whole states to the parts, or collects them. NULL arrays of `whole` are left out; gradients are divided to
// be the mean.
void mesh_scatter(struct mesh_ranks *ranks, const struct answer_step *whole);
void mesh_collect(const struct mesh_ranks *ranks, struct answer_step *whole);

// Makes every part's model from the masters of the ranks that own their elements.
void mesh_gather(struct mesh_ranks *ranks);

// Adds one gradient of a use, [case_part_count], to a rank's; `first` of the step replaces it. scale: the loss scale.
void mesh_add_gradient(struct mesh_ranks *ranks, int rank, int use, bool first, float scale, float *gradient);

// Sums the gradients of all ranks, decides whether the step is skipped, and makes it.
int mesh_step(struct mesh_ranks *ranks);

// Rounds to dtype and back.
void mesh_round(enum dtype dtype, float *values, size_t count);

// Answers a case with such a mesh. config: the case's, without the mesh. store: where its checkpoint is.
int mesh_answer(const struct check_case *c, const struct config *config, const char *folder, const char *answer,
                const char *store);

// True if `store` has a checkpoint that mesh_answer made, which a case on any mesh can take up.
bool mesh_has_checkpoint(const struct check_case *c, const char *store);
