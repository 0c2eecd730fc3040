// SPDX-License-Identifier: Apache-2.0
// Finds the presets under which a model fits into a machine's memory, from a plan of one rank (plan.h). Micro-batches
// have one sequence; everything else follows the preset.
#pragma once

#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

struct fit_setting {
    const char *const *models;  // names for plan_model_find; NULL at the end
    int world;
    uint64_t device_bytes, host_bytes, nvme_bytes;  // one rank's part; 0: unknown, and `fits` may be null
};

struct model;

// Bytes of rank 0, which has the largest shards, by tier. ERR_USAGE: unknown preset, or world out of range.
int fit_bytes(const struct model *model, const char *preset, int world, uint64_t out[3]);

// Appends a `fit` record to the array for every model and preset.
int fit_all(const struct fit_setting *setting, json_t *records);

// Returns whether NVIDIA's driver lists a GPU.
bool fit_has_gpu(void);

// Divides the memory that is available now by `world` ranks. NVMe: the free space of the folders (NULL at the end).
// device_memory and host_memory replace what was found, per rank; null: not given. Without a GPU, device and host get
// half of the free host memory each. With a GPU, whose memory this program cannot query, the device is unknown unless
// given.
int fit_available(int world, const char *device_memory, const char *host_memory, const char *const *paths,
                  struct fit_setting *out);

// ERR_USAGE: a folder cannot be written to, or all together lack room for the files of some part of a run, which could
// not become VALID.
int fit_check_paths(const char *const *paths, bool quick);
