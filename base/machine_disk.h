// SPDX-License-Identifier: Apache-2.0
// The disk below a folder, for machine.c.
#ifndef ZG_MACHINE_DISK_H
#define ZG_MACHINE_DISK_H

#include <jansson.h>

// A new object with the keys folder, file_system, device, model, rotational, bytes and available_bytes; null when the
// folder cannot be looked at.
json_t *machine_disk(const char *folder);

// The first line of a small file of the system without blanks at its end, as a new JSON string; JSON's null when there
// is no such file.
json_t *machine_line(const char *path);

#endif
