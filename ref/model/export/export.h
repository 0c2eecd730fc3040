// SPDX-License-Identifier: Apache-2.0
// The weights of a checkpoint for other programs: unsharded tensors under their names, in one safetensors file; of a
// model with adapters, the folder that PEFT reads, or the merged weights.
#pragma once

#include "ref/checkpoint/checkpoint.h"

// Writes the parameters, in the manifest's order, rounded to dtype, a block at a time. The file gets its name only when
// it is complete and durable. ERR_USAGE: it exists.
int export_weights(const struct checkpoint *checkpoint, const char *path, enum dtype dtype);

// For a checkpoint of a model with adapters. Writes adapter_model.safetensors and adapter_config.json to a folder,
// which may exist without these files, as PEFT's PeftModel.from_pretrained reads them.
int export_adapters(const struct checkpoint *checkpoint, const char *folder, enum dtype dtype);

// The same, with the adapters added to the base in fp32: W + (alpha / rank) (B A)^T of a GPT, whose weights are input x
// output; (alpha / rank) B A of a linear model. Writes the base's tensors under the base's names. base_path: the file
// of weights that the run began with, NULL if it began by a seed. ERR_USAGE: the run began with other weights.
int export_merged(const struct checkpoint *checkpoint, const char *base_path, const char *path, enum dtype dtype);

// --- shared by the files of this folder ---

// A tensor of an export: its name in the file, its shape, and its values, which `read` writes to out, [count] in fp32.
struct export_tensor {
    const char *name;
    int shape_rank;
    uint64_t shape[SAFETENSORS_RANK_MAX];
    uint64_t count;
};

// Writes these tensors to a file, as export_weights does. read: elements [first, first + count) of the tensor with this
// index.
int export_tensors(const char *path, const struct export_tensor tensors[], size_t tensor_count, enum dtype dtype,
                   int (*read)(void *context, size_t tensor, uint64_t first, size_t count, float *out), void *context);

// `zerogauge export`
int export_main(int argc, const char **argv);
