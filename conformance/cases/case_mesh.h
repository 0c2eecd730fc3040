// SPDX-License-Identifier: Apache-2.0
// A case on a mesh: which of its parameters a rank holds, which part of them, and which gradients the rank gets. The
// numbers of a case belong to its data ranks (replicate x shard): each has a whole gradient of every parameter,
// however tensor, pipeline and expert cut it. From them each rank of the world gets its own:
//
//   whole    on every tensor rank the same
//   cut      the tensor rank's part, equal parts along one dimension in the order of the tensor ranks
//   partial  a share: the sum over the tensor ranks is the gradient. Sequence parallelism makes such gradients
//   expert   the sum over the data ranks of an expert group, whose tokens the owner has computed
//
// With sequence parallelism as many consecutive data ranks share each micro-batch. The numbers belong to the
// micro-batches, and each of these ranks has a share of every gradient, from its part of the sequences.
//
// A case without a mesh is one of as many shards as ranks.
#pragma once

#include "conformance/cases/case.h"

// The ranks that share a micro-batch: 1 or more; and which of them a rank is, from 0.
int case_sequence_ranks(const struct check_case *c);
int case_sequence_rank(const struct check_case *c, int rank);

bool case_has_mesh(const struct check_case *c);
struct mesh case_mesh(const struct check_case *c);

// The micro-batches over which gradients are averaged: replicate x shard, each a data rank's own unless sequences are
// cut.
int case_batches(const struct check_case *c);

// The case without a mesh: its world is the number of micro-batches.
void case_logical(const struct check_case *c, struct check_case *out);

// True if a rank holds a use of a parameter: its pipeline stage has it, and its experts are the rank's.
bool case_holds(const struct check_case *c, int rank, int use);

// The shape of the part of a parameter that a rank which holds it has, and its elements.
void case_part_shape(const struct check_case *c, int param, size_t shape[CASE_SHAPE_MAX]);
size_t case_part_count(const struct check_case *c, int param);

// The index in the whole parameter of an element of a tensor rank's part.
size_t case_whole_element(const struct check_case *c, int tensor_rank, int param, size_t element);

// The gradient of a use on a rank of the world that holds it: [case_part_count]. The use has a gradient.
void case_part_gradient(const struct check_case *c, const struct case_values *values, int step, int micro, int rank,
                        int use, float *out);

// The words of enum case_part, and NULL.
extern const char *const case_part_names[];

// The names "replicate", "tensor", "pipeline", "expert", "lora", "token_mean", "muon", "sequence", "fp8_gather", in the
// order of enum case_option; NULL ends them.
extern const char *const case_option_names[];

// The options that a program must claim for a case, as bits 1 << enum case_option.
unsigned case_options(const struct check_case *c);
