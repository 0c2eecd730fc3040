// SPDX-License-Identifier: Apache-2.0
// Which presets hold a model in the memory that a machine has, by a plan of a rank (plan.h). Micro-batches have one
// sequence; all else is the preset's.
#ifndef ZG_FIT_H
#define ZG_FIT_H

#include <jansson.h>

#include <stdint.h>

struct fit_setting {
    const char *const *models;  // of plan_model_find; NULL at the end
    int world;
    // A rank's share; 0: not known, and then nothing is said about it.
    uint64_t device_bytes, host_bytes, nvme_bytes;
};

struct model;

// What rank 0 holds, the rank with the largest shares, on device, host and NVMe.
int fit_bytes(const struct model *model, const char *preset, int world, uint64_t out[3]);

// Appends a `fit` record for every model and preset.
int fit_all(const struct fit_setting *setting, json_t *records);

// The memory that is available now, shared out: NVMe is the free space of the folders (NULL at the end). Device and
// host are given bytes, where they are given (null: not). Without a GPU the device is host memory as well, and each has
// half of it; with one, whose memory this program does not see, the device's is not known unless it is given.
int fit_available(int world, const char *device_memory, const char *host_memory, const char *const *paths,
                  struct fit_setting *out);

#endif
