// SPDX-License-Identifier: Apache-2.0
// A rank's file of a checkpoint that is being saved: the pieces of tensors that it stores, in the order of buckets and
// states. The data comes from the stage, or from a copy of all of it, which another thread may write.
#pragma once

#include "ref/checkpoint/checkpoint.h"

enum { SHARD_KEY_BYTES = 128 };

struct shard_file {
    struct stage *stage;
    size_t count;
    uint64_t data_bytes;
    struct safetensors_tensor *tensors;
    char (*keys)[SHARD_KEY_BYTES];
    float *shard;                       // memory for the largest shard
    void *model_params;                 // the same, in the model's dtype
    struct safetensors_writer *writer;  // null: the data goes to the copy
    float *copy;                        // null: there is none
    size_t copied;                      // elements
};

// Lists the tensors. Close it after an error, too.
int shard_file_open(struct stage *stage, struct shard_file *out);
void shard_file_close(struct shard_file *file);

// Copies all data, after which the stage may change: copy has room for checkpoint_copy_bytes.
int shard_file_copy(struct shard_file *file, float *copy);

// Writes the file and makes it durable. ERR_IO names it.
int shard_file_write(struct shard_file *file, const char *path, struct manifest_file *out);
