// SPDX-License-Identifier: Apache-2.0
// What `--device` names: the processor that the device tier belongs to.
#ifndef ZG_DEVICE_H
#define ZG_DEVICE_H

#include "ref/train/train.h"

#include <stdbool.h>

// Sets accelerator and device_count of the setting, whose world it looks at. name: "cpu", where
// the device is host memory under a budget; "cuda"; null is "cpu". launched: the ranks are processes, of a launcher.
// ERR_USAGE: unknown, not built in, or not here; the message says what to do.
int device_find(const char *name, bool launched, struct train_setting *setting);

// Whether it names a device that some build knows: one that device_find does not find is absent, and not unknown.
bool device_is_name(const char *name);

// "cpu", or the accelerator's name.
const char *device_name(const struct train_setting *setting);

// Collective: the processes of a launcher's world take a GPU each, and *comm becomes the transport that carries what
// lies there, over the one that it was. Without an accelerator it stays. ERR_USAGE, on all of them: a host has more
// ranks than GPUs, or no NCCL; *comm is then as it was.
int device_connect(struct train_setting *setting, struct comm **comm);

#endif
