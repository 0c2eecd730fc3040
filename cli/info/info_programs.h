// SPDX-License-Identifier: Apache-2.0
// Optional programs that some commands use.
#ifndef ZG_INFO_PROGRAMS_H
#define ZG_INFO_PROGRAMS_H

#include <jansson.h>

// Returns a new array of objects: name, path and version (null if the program is absent or reports no version), package
// (the Debian package) and enables (its purpose here). Runs each program that it finds with --version, except those
// that start slowly.
json_t *info_programs(void);

#endif
