// SPDX-License-Identifier: Apache-2.0
// A model whose initial parameters are those of a safetensors file instead of those of a seed. It is the model in all
// else, so that a stage and the unsharded run beside it begin with the same values.
#ifndef ZG_WEIGHTS_H
#define ZG_WEIGHTS_H

#include "base/file.h"
#include "ref/model/model.h"

struct weights {
    struct model model;  // what to train
    char digest[FILE_DIGEST_BYTES];
    struct model_operations operations;
    float **values;  // by parameter
};

// The file has a tensor for each of the model's parameters, of its name and shape, in F32, BF16 or F16, and no other.
// ERR_USAGE names the file and the tensor that is not so. All of it is in memory, in fp32, until it is closed.
int weights_open(const char *path, const struct model *model, struct weights **out);

// Null-safe.
void weights_close(struct weights *weights);

#endif
