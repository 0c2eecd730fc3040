// SPDX-License-Identifier: Apache-2.0
// What this machine is, as far as a published result may say: an allow-list of facts, nothing of the environment, no
// host name, no serial number.
#ifndef ZG_MACHINE_H
#define ZG_MACHINE_H

#include <jansson.h>

// A new object with the keys that results/RECORDS.md names; what the system does not tell is null in it. `folders` are
// those whose disks are described, null-terminated; may be null. Null when not even the processors are known.
json_t *machine_facts(const char *const *folders);

#endif
