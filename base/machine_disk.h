// SPDX-License-Identifier: Apache-2.0
// The disk of a folder, for machine.c.
#ifndef ZG_MACHINE_DISK_H
#define ZG_MACHINE_DISK_H

#include <jansson.h>

// Returns a new object with the keys folder, file_system, device, model, rotational, bytes and available_bytes; null if
// the folder cannot be inspected.
json_t *machine_disk(const char *folder);

// Returns the first line of a small system file, without trailing blanks, as a new JSON string; JSON's null if there is
// no such file.
json_t *machine_line(const char *path);

#endif
