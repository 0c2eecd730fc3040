// SPDX-License-Identifier: Apache-2.0
// A model that takes its initial parameters from a safetensors file instead of a seed. It equals the model in
// everything else, so that a stage and its oracle begin with the same values.
#pragma once

#include "base/file.h"
#include "ref/model/model.h"

struct weights {
    struct model model;  // the model to train; first member: initialise casts from it
    char digest[FILE_DIGEST_BYTES];
    struct model_operations operations;
    float **values;  // by parameter; null: by the seed
    int (*initialise)(const struct model *model, int param, uint64_t seed, float *out);  // the model's own
};

// Opens a file with exactly one tensor for each of the model's parameters, of its name and shape, in F32, BF16 or F16.
// Of a model with adapters, the file may have the base alone.
// ERR_USAGE names the file and the wrong tensor. Holds all values in memory, in fp32, until weights_close.
int weights_open(const char *path, const struct model *model, struct weights **out);

// Null-safe.
void weights_close(struct weights *weights);
