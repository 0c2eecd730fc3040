// SPDX-License-Identifier: Apache-2.0
// The subcommands with options.
#pragma once

#include <stdbool.h>
#include <stdio.h>

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

// Shell completion: packaging/zerogauge.bash and packaging/_zerogauge offer the candidates that the program prints.

// words: the command line after the program's name. Prints the candidates for the last word, one per line; none if a
// file is expected. Returns the exit status.
int complete_print(const char *const *words, int count);

// The manual page: packaging/zerogauge.1.in, a frame in mdoc, with sections generated from the commands' option tables.

// Prints the frame with the sections instead of its line @COMMANDS@. Returns the exit status.
int manual_fill(FILE *frame);
