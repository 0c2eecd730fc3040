// SPDX-License-Identifier: Apache-2.0
// What this machine has, and which parts were built in: `zerogauge info`.
#ifndef ZG_INFO_H
#define ZG_INFO_H

#include <jansson.h>

// A new object with the keys record, build, machine, isa, openblas, backends and programs; null when the system does
// not tell.
json_t *info_collect(void);

// The subcommand; --json prints the object in one line. argv[0] is its own name; returns the exit status.
int info_main(int argc, const char **argv);

#endif
