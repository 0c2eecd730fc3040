// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: the run's facts and progress, and the files with the tensors. It is written last, so
// that a folder with a manifest is complete; it has a digest of itself and of every file.
//
// manifest.json, version 2, has exactly these keys:
//   format, version, written_by   "zerogauge checkpoint", 2, the program
//   model, parameters             its name; per parameter that is stored (of a model with adapters, the trained ones):
//                                 name, shape, frozen, and its stored states: param, exp_avg and exp_avg_sq of a
//                                 trained one, param of a frozen one; while a delayed update waits,
//                                 also seen_param, the values that the model uses; all in fp32
//   step, applied, skipped        steps made; updates applied (t) and not applied
//   last_step                     whether that step was applied, and its loss
//   made_with, repeatable         the facts that determine bits (checkpoint.h); whether they hold for all steps
//   loss_scaler, recipe_states    scaler.h; recipe.h, by optimizer group
//   files                         by rank: bytes and XXH3-128 of rank-R.safetensors, and XXH3-128 of its tensor
//                                 "blocks", which has the digests of its blocks (blocks.h)
//   digest                        XXH3-128 of all other keys, as JSON without blanks and with sorted keys
// Version 1, which is read as well, has no blocks: a file is checked as a whole.
// Numbers that are not integers are strings in C's hexadecimal notation, which keeps every bit.
#pragma once

#include "base/file.h"
#include "ref/recipe/recipe.h"
#include "ref/checkpoint/safetensors.h"
#include "ref/optimizer/scaler.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_FORMAT "zerogauge checkpoint"
enum { MANIFEST_VERSION = 2, MANIFEST_BYTES_MAX = 1 << 26 };

struct manifest_param {
    const char *name;
    int shape_rank;
    uint64_t shape[SAFETENSORS_RANK_MAX];
    uint64_t count;
    bool frozen;
};

struct manifest_fact {
    const char *key, *value;
};

struct manifest_file {
    uint64_t bytes;
    char digest[FILE_DIGEST_BYTES];
    char blocks_digest[FILE_DIGEST_BYTES];  // of its tensor "blocks"; "": of version 1
};

struct manifest {
    uint64_t version;
    const char *model;
    uint64_t step, applied, skipped;
    bool last_applied;
    double loss;
    bool repeatable;
    bool waiting;          // the model does not use the last update yet: trained parameters have a seen_param
    struct scaler scaler;  // without its rules
    size_t group_count, fact_count, param_count, file_count;
    struct recipe_state *recipe_states;
    struct manifest_fact *facts;
    struct manifest_param *params;
    struct manifest_file *files;
    json_t *root;  // owns the strings of a manifest that was read
};

// The states of enum state, in its order, then seen_param. Their tensors are called STATE/NAME[BEGIN:END].
enum { MANIFEST_STATE_SEEN = 3, MANIFEST_STATE_COUNT };

// "param", "exp_avg", "exp_avg_sq", "seen_param"
const char *manifest_state_name(int state);

enum { RANK_NAME_BYTES = 48 };

// "rank-0.safetensors"
const char *checkpoint_rank_name(size_t rank, char out[RANK_NAME_BYTES]);

// The number of states, from the first on, that are stored of such a parameter.
int manifest_state_count(bool frozen, bool waiting);

// Returns whether every file has digests of its blocks.
bool manifest_has_blocks(const struct manifest *manifest);

// Returns the value of a fact that the steps were made with, null if the manifest has no such fact.
const char *manifest_made_with(const struct manifest *manifest, const char *key);

// Makes the text; the caller frees *out and owns the manifest's arrays.
int manifest_text(const struct manifest *manifest, char **out);

// The digest of all keys of a manifest except "digest".
int manifest_digest(const json_t *root, char out[FILE_DIGEST_BYTES]);

// Sets the digest of a manifest as JSON.
int manifest_seal(json_t *root);

// Parses a manifest; messages give `path` for the file. ERR_USAGE: it is not a manifest of this version. The caller
// closes *out also after an error.
int manifest_parse(const char *path, const char *text, size_t bytes, struct manifest *out);
void manifest_close(struct manifest *manifest);
