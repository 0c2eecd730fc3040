// SPDX-License-Identifier: Apache-2.0
// The subcommands that have options of their own.
#ifndef ZG_COMMANDS_H
#define ZG_COMMANDS_H

#include <stdbool.h>

// `run` takes "zerogauge NAME" as argv[0], as its help calls it, and returns the exit status.
struct command {
    const char *name;
    int (*run)(int argc, const char **argv);
    const char *summary;
};

extern const struct command commands[];  // the name is null behind the last

const struct command *command_find(const char *name);  // null: there is none

int command_run(const struct command *command, int argc, const char **argv);

// Shows the command's --help, or that of one of its benchmarks where `benchmark` is not null. Returns the exit status,
// or ends the program.
int command_help(const struct command *command, const char *benchmark);

// True for `bench`, whose options belong to its benchmarks.
bool command_has_benchmarks(const struct command *command);

#endif
