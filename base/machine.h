// SPDX-License-Identifier: Apache-2.0
// The facts about this machine that a published result may contain: an allow-list without environment variables, host
// names and serial numbers.
#pragma once

#include <jansson.h>

// Returns a new object with the keys of results/RECORDS.md; facts that the system does not provide are null. folders:
// null-terminated, their disks are described; may be null. Returns null if hwloc cannot read the topology.
json_t *machine_facts(const char *const *folders);

// The disk of a folder, for machine.c.

// Returns a new object with the keys folder, file_system, device, model, rotational, bytes and available_bytes; null if
// the folder cannot be inspected.
json_t *machine_disk(const char *folder);

// Returns the first line of a small system file, without trailing blanks, as a new JSON string; JSON's null if there is
// no such file.
json_t *machine_line(const char *path);
