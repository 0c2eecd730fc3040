// SPDX-License-Identifier: Apache-2.0
// `--device`: the processor to which the device tier belongs.
#pragma once

#include "ref/train/train.h"

#include <stdbool.h>

// Sets accelerator and device_count of the setting, whose world is set. name: "cpu" or null, where the device is host
// memory under a budget; or "cuda". launched: the ranks are processes of a launcher. ERR_USAGE: the name is unknown, or
// its support is not in this build or this machine; the message says what to do.
int device_find(const char *name, bool launched, struct train_setting *setting);

// True for names that some build knows. If device_find fails for one, the device is absent.
bool device_is_name(const char *name);

// "cpu", or the accelerator's name.
const char *device_name(const struct train_setting *setting);

// Collective: each process of a launcher's world takes a GPU, and *comm becomes a transport between GPUs that is built
// on the given one. Without an accelerator it stays. ERR_USAGE, on all ranks: a host has more ranks than GPUs, or no
// NCCL; *comm is unchanged.
int device_connect(struct train_setting *setting, struct comm **comm);
