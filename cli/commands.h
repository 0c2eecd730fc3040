// SPDX-License-Identifier: Apache-2.0
// The subcommands with options.
#ifndef ZG_COMMANDS_H
#define ZG_COMMANDS_H

#include <stdbool.h>

// `run` expects "zerogauge NAME" as argv[0], for its help, and returns the exit status.
struct command {
    const char *name;
    int (*run)(int argc, const char **argv);
    const char *summary;
};

extern const struct command commands[];  // ended by a null name

const struct command *command_find(const char *name);  // null if there is none

int command_run(const struct command *command, int argc, const char **argv);

// Shows the --help of the command or, if `benchmark` is not null, of that benchmark. Returns the exit status or ends
// the program.
int command_help(const struct command *command, const char *benchmark);

// True for `bench`, whose options belong to its benchmarks.
bool command_has_benchmarks(const struct command *command);

#endif
