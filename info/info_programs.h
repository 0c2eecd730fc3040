// SPDX-License-Identifier: Apache-2.0
// Other programs that some commands use when they are there, and none needs.
#ifndef ZG_INFO_PROGRAMS_H
#define ZG_INFO_PROGRAMS_H

#include <jansson.h>

// A new array of objects: name, path and version (null where the program is absent or does not tell), package (Debian's
// that brings it) and enables (what is possible with it, and is not without). Starts each program that it finds, with
// --version, but for those that take long to start.
json_t *info_programs(void);

#endif
