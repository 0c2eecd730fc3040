// SPDX-License-Identifier: Apache-2.0
// The tables of other programs' keys.
#pragma once

#include "ref/config/config.h"
#include "ref/config/config_keys.h"

#include <jansson.h>

// A row says which keys a value changes; %s is the value, "%k=%s" the same key, which keeps its name and, as a section,
// all in it. Keys and values are words, "a|b|c"; the first row of a key and value counts. A value "*X" is for all with
// X in them, and a row without a value for all others, and for all keys of a section. A section with the value "" has
// only the keys that have rows. A row without changes has no meaning here; `refused` says what to do instead. A row
// that changes "own.plan" has a meaning for plans alone: elsewhere it is refused, or noted where nothing says how.
struct accelerate_row {
    const char *key, *value, *changes[5], *refused;
};

// Ended by a row without a key. What several keys decide together is kept in a section "own", which does not stay:
// degrees of parallelism, whether the file is of FSDP, the file of DeepSpeed that it names, and what plans alone have.
extern const struct accelerate_row accelerate_rows[], trainer_rows[], torchtune_rows[], torchtitan_rows[], neox_rows[];
extern const struct accelerate_row nemo_rows[], megatron_rows[], verl_rows[], litgpt_rows[], foundry_rows[],
    olmo_rows[];

// The row of a key, or of the section around it; null if there is none.
const struct accelerate_row *accelerate_row_find(const struct accelerate_row *row, const char *key, const char *value);

// The keys of Accelerate's rows, for config_hint.
const char *accelerate_path_at(size_t index);

#define ACCELERATE_PLAN "own.plan."

// FSDP keeps and sums its shards of gradients in fp32.
#define ACCELERATE_FULL_SHARD "zero_optimization.stage=3", "data_types.grad_accum_dtype=fp32"
#define ACCELERATE_GRAD_OP "zero_optimization.stage=2", "data_types.grad_accum_dtype=fp32"
#define ACCELERATE_OFFLOAD                                                                                             \
    "zero_optimization.offload_optimizer.device=cpu", "zero_optimization.offload_param.device=cpu"

// True for a program whose table names a part of its keys.
bool accelerate_is_trainer(const struct config_program *program);

// The keys of a file, as its rows change them.
struct accelerate_read {
    const char *name;  // of the file
    const struct config_options *options;
    const struct config_program *program;  // null: as Accelerate
    const char *type;                      // the value of distributed_type; null: none
    json_t *root;
    const json_t *places;  // "LINE: KEY" for each path of the root that a key set
};

// Loads a text of one document of YAML, or of TOML as YAML. ERR_USAGE with `NAME:LINE: ...`: it is neither, has a
// second document, a key twice in a section, more than 64 levels or 256 anchors, or a directive of tags. The caller
// deletes *out, unless it fails.
struct yaml_document_s;
int config_yaml_load(const char *name, const char *text, size_t bytes, struct yaml_document_s *out);

// Sets what several keys decide together: the stage, the degrees of parallelism as a mesh, in which ranks that no
// degree of a trainer's names share the states, a pipeline's micro-batches, Adam's betas, and adapters. ERR_USAGE names
// such a key.
int accelerate_complete(const struct accelerate_read *read);
