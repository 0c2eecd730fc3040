// SPDX-License-Identifier: Apache-2.0
// A run's state for other programs: one safetensors file with master parameters, moments and all that the next step
// depends on, from which the run continues. conformance/adapters/zerogauge/convert.py makes other formats of it.
//
// Tensors, all F32, unsharded, and in the sequence of their names: param/NAME of each parameter; exp_avg/NAME and
// exp_avg_sq/NAME of those that have moments, no others: an absent moment is not zero. "__metadata__" has
//   format, version   "zerogauge states", "1"
//   digest            XXH3-128 of the state, as JSON without blanks and with sorted keys, then of the tensors' data
//   state             JSON with exactly these keys:
//     precision       of the model's parameters: fp32, bf16 or fp16
//     step, skipped   steps made, and those of them whose update was skipped
//     schedule        steps that the schedule of learning rates has counted; null: there is none
//     scaler          null, or dynamic, scale, iteration, last_overflow, hysteresis; if dynamic, also window,
//                     hysteresis_start, consecutive and min_scale (scaler.h)
//     groups          by optimizer group, its settings: lr (of the next update), betas, eps, weight_decay, and others
//     parameters      by name: shape; group, null if it is not trained; t, its updates so far, null: it has no moments
//     tied            other names of parameters: name -> name in `parameters`
//     origin          null, or what only the program needs that wrote it; of this one, entries of the manifest
//                     (manifest.h): model, made_with, repeatable, last_step, recipe_states
//
// Input files are untrusted: what is missing, unknown or inconsistent is refused by name.
#pragma once

#include "base/json.h"
#include "ref/checkpoint/checkpoint.h"

#define STATES_FORMAT "zerogauge states"
#define STATES_VERSION "1"

struct states {
    struct safetensors file;
    struct json_text text;  // of "state"
    char *name;             // of that text, in messages
    char digest[FILE_DIGEST_BYTES];
};

// Writes a checkpoint's state to a new file, which appears when it is complete and durable. ERR_USAGE: the path exists,
// or the checkpoint is damaged, or holds a delayed update that the model does not use yet.
int states_write(const struct checkpoint *checkpoint, const char *path, char digest[FILE_DIGEST_BYTES]);

// Opens a file and checks all of it: the state, the tensors' names and shapes and, if `sealed`, the digest that it
// names. The caller closes *out also after an error.
int states_open(const char *path, bool sealed, struct states *out);
void states_close(struct states *states);

// Writes a new folder of checkpoints that holds this one, for `train --resume` or `--checkpoint`. It appears when it is
// complete. ERR_USAGE: the path exists, or the state is not one of this program's models, or it has trained parameters
// without moments or with another t.
int states_write_checkpoint(const struct states *states, const char *path);

// --- shared by the files of this folder ---

// The state of a checkpoint as JSON; the caller owns *out, also after an error.
int states_json(const struct checkpoint *checkpoint, json_t **out);

// Checks the state; keys of the wrong kind are refused with their path.
int states_check(const struct json_text *text);

// Lists the tensors that the file of a state has, in their sequence; the caller frees *out and (*out)[0].name, which
// holds all names.
int states_tensors(const json_t *state, struct safetensors_tensor **out, size_t *count);

// Hashes the state; the caller adds the data.
int states_digest_begin(const json_t *state, XXH3_state_t **out);

// `zerogauge convert`
int convert_main(int argc, const char **argv);
