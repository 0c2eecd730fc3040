// SPDX-License-Identifier: Apache-2.0
// The table of Accelerate's keys.
#pragma once

// A row says which keys a value changes; %s is the value. The first row of a key and value counts, and a row without a
// value is for all others, and for all keys of a section. A section with the value "" has only the keys that have rows.
// A row without changes has no meaning here; `refused` says what to do instead.
struct accelerate_row {
    const char *key, *value, *changes[4], *refused;
};

// Ended by a row without a key. What several keys decide together is kept in a section "own", which does not stay:
// degrees of parallelism, and whether the file is of FSDP.
extern const struct accelerate_row accelerate_rows[];

// FSDP keeps and sums its shards of gradients in fp32.
#define ACCELERATE_FULL_SHARD "zero_optimization.stage=3", "data_types.grad_accum_dtype=fp32"
