// SPDX-License-Identifier: Apache-2.0
// The files of datasets/configs, compiled in: the build makes config_presets.c from them.
#pragma once

#include <stddef.h>

struct config_preset {
    const char *name;
    const char *text;  // terminated
    size_t bytes;      // without the terminator
};

// In alphabetical order; the last has a null name.
extern const struct config_preset config_presets[];
