// SPDX-License-Identifier: Apache-2.0
// Degrees of parallelism that plans alone have.
//
// Context parallelism (Megatron-LM's "cp"; Ring Attention, arXiv 2310.01889) divides each sequence among neighbouring
// ranks of data parallelism, which partition states and reduce gradients as others do. Keys and values pass them in a
// ring while a rank's attention is computed with those that it has.
//
// Interleaving (Megatron-LM, arXiv 2104.04473, section 2.2.2) gives each of the P stages of a pipeline V parts of the
// model, so that the bubble is V times shorter, and activations cross V times as many borders.
//
// Whole experts (Megatron-LM's expert_tensor_parallel_size 1): tensor parallelism's ranks have other experts each, with
// sequence parallelism, and "expert=E" counts them, too. Else each has slices of the same experts.
#pragma once

#include "plan/device/framework.h"
#include "plan/device/transformer.h"
#include "ref/config/config.h"
#include "ref/model/model.h"
#include "ref/pipeline/schedule.h"

#include <stdint.h>

// Parses a mesh with "context=C" and "expert_tensor=1" in addition to what mesh_parse reads, and sets both in the
// choice. `out` is the mesh without them, in which each of those C ranks is one of shard, and experts are divided among
// ranks of data parallelism alone; "" if nothing else is given. ERR_USAGE.
int plan_mesh_read(const char *text, char out[MESH_TEXT_BYTES], struct framework_choice *choice);

// The mesh in the form that plan_mesh_read reads.
enum { PLAN_MESH_BYTES = MESH_TEXT_BYTES + 48 };
const char *plan_mesh_text(const struct framework_choice *choice, struct mesh mesh, char out[PLAN_MESH_BYTES]);

// ERR_USAGE: the ranks or the model cannot be divided so.
int plan_degrees_check(const struct framework_choice *choice, const struct config *config, int world,
                       const struct model *model);

// V; 1: stages are not interleaved.
int plan_degrees_parts(const struct framework_choice *choice);

// (P-1)/(VM+P-1), the part of the passes of M micro-batches in which a stage has nothing to do.
double plan_degrees_bubble(const struct framework_choice *choice, const struct pipeline_schedule *schedule);

// Micro-batches whose activations a stage holds: P + (P-1)/V in the first one (arXiv 2205.05198, section 4.2.3).
double plan_degrees_in_flight(const struct framework_choice *choice, const struct pipeline_schedule *schedule,
                              int stage);

// By how much interleaving multiplies what a stage sends to its neighbours.
double plan_degrees_borders(const struct framework_choice *choice, const struct pipeline_schedule *schedule, int stage);

// The keys and values, and their gradients, that a rank sends in the rings of a step.
uint64_t plan_degrees_ring_bytes(const struct framework_choice *choice, const struct config *config,
                                 const struct transformer *t);
