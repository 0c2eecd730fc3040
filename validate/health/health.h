// SPDX-License-Identifier: Apache-2.0
// The subcommands about a machine's health, which return the exit status.
#ifndef ZG_HEALTH_H
#define ZG_HEALTH_H

int preflight_main(int argc, const char **argv);
int soak_main(int argc, const char **argv);

#endif
