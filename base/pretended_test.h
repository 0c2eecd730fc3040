// SPDX-License-Identifier: Apache-2.0
// For tests: a pretended machine (base/resources.h) in a temporary folder.
#pragma once

#include "base/folder_test.h"

#include <string.h>

// Writes a file of the pretended machine; creates the folders on its way.
static inline void pretended_file(const char *root, const char *name, const char *text)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    folder_write(path, text, strlen(text));
}

// Makes a machine with this synthetic topology and memory, and pretends it from now on. root: a folder_make.
static inline void pretended_machine(const char *root, const char *topology, size_t memory_mib)
{
    char text[256];
    pretended_file(root, "topology.txt", topology);
    snprintf(text, sizeof text, "MemTotal: %zu kB\nMemFree: 1 kB\nMemAvailable: %zu kB\n", memory_mib << 10,
             memory_mib << 10);
    pretended_file(root, "proc/meminfo", text);
    setenv("ZG_MACHINE_ROOT", root, 1);
}
