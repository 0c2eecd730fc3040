// SPDX-License-Identifier: Apache-2.0
// The tables of other programs' keys.
#pragma once

#include <jansson.h>

// A row says which keys a value changes; %s is the value. The first row of a key and value counts, and a row without a
// value is for all others, and for all keys of a section. A section with the value "" has only the keys that have rows.
// A row without changes has no meaning here; `refused` says what to do instead.
struct accelerate_row {
    const char *key, *value, *changes[5], *refused;
};

// Ended by a row without a key. What several keys decide together is kept in a section "own", which does not stay:
// degrees of parallelism, whether the file is of FSDP, and the file of DeepSpeed that it names.
extern const struct accelerate_row accelerate_rows[], trainer_rows[];

// FSDP keeps and sums its shards of gradients in fp32.
#define ACCELERATE_FULL_SHARD "zero_optimization.stage=3", "data_types.grad_accum_dtype=fp32"
#define ACCELERATE_GRAD_OP "zero_optimization.stage=2", "data_types.grad_accum_dtype=fp32"
#define ACCELERATE_OFFLOAD                                                                                             \
    "zero_optimization.offload_optimizer.device=cpu", "zero_optimization.offload_param.device=cpu"

// Sets the keys that several of "own" decide together: the degrees of parallelism as a mesh, and Adam's betas. `places`
// has "LINE: KEY" for each. ERR_USAGE names such a key.
int accelerate_combine(const char *name, json_t *root, const json_t *places);
