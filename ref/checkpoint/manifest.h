// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: what the run was, where it stood, and which files hold the tensors. It is written last,
// so that a folder with a manifest is complete; it carries a digest of itself and one of every file.
//
// manifest.json, version 1, has these keys, all of them and no others:
//   format, version, written_by   "zerogauge checkpoint", 1, the program
//   model, parameters             its name; per parameter: name, shape, frozen, and the states that are stored of it:
//                                 of a trained one param, exp_avg and exp_avg_sq, of a frozen one param; where an
//                                 update is delayed, also seen_param: what the model still sees; all in fp32
//   step, applied, skipped        steps made; updates applied (t) and not applied
//   last_step                     of that step: applied or not, and the loss
//   made_with, repeatable         the facts that decide about bits (checkpoint.h); whether all steps were made so
//   loss_scaler, recipe_states    scaler.h and, by optimizer group, recipe.h
//   files                         by rank: bytes and XXH3-128 of rank-R.safetensors
//   digest                        XXH3-128 of all the rest: as JSON without blanks, keys sorted
// Numbers that are not integers are strings in C's hexadecimal notation, so that no bit is lost.
#ifndef ZG_MANIFEST_H
#define ZG_MANIFEST_H

#include "base/file.h"
#include "ref/recipe/recipe.h"
#include "ref/checkpoint/safetensors.h"
#include "ref/optimizer/scaler.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_FORMAT "zerogauge checkpoint"
enum { MANIFEST_VERSION = 1, MANIFEST_BYTES_MAX = 1 << 26 };

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
};

struct manifest {
    const char *model;
    uint64_t step, applied, skipped;
    bool last_applied;
    double loss;
    bool repeatable;
    bool waiting;          // the last update has not been seen by the model: seen_param is stored of trained parameters
    struct scaler scaler;  // but for its rules
    size_t group_count, fact_count, param_count, file_count;
    struct recipe_state *recipe_states;
    struct manifest_fact *facts;
    struct manifest_param *params;
    struct manifest_file *files;
    json_t *root;  // owns the strings of a manifest that was read
};

// The first states are those of enum state. Their tensors are called STATE/NAME[BEGIN:END].
enum { MANIFEST_STATE_SEEN = 3, MANIFEST_STATE_COUNT };

// "param", "exp_avg", "exp_avg_sq", "seen_param"
const char *manifest_state_name(int state);

// How many of them, from the first on, are stored of such a parameter.
int manifest_state_count(bool frozen, bool waiting);

// Makes the text; the caller frees it. Of a manifest being written the arrays are the caller's.
int manifest_text(const struct manifest *manifest, char **out);

// The digest of everything in a manifest but "digest".
int manifest_digest(const json_t *root, char out[FILE_DIGEST_BYTES]);

// Sets the digest of a manifest as JSON.
int manifest_seal(json_t *root);

// path stands for the file in messages. ERR_USAGE: it is no manifest, or not one of this version. To be closed in
// either case.
int manifest_parse(const char *path, const char *text, size_t bytes, struct manifest *out);
void manifest_close(struct manifest *manifest);

#endif
