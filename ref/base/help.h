// SPDX-License-Identifier: Apache-2.0
// What every command says to --help beyond its options: examples, kept in one table, and what can be named in them.
#ifndef ZG_HELP_H
#define ZG_HELP_H

#include <popt.h>

#include <stdio.h>

// --help as the last row but one of a command's popt table: prints usage, options and examples, and ends the program
// with status 0, as popt's own does. The context's first argument is the whole command: "zerogauge train".
extern struct poptOption help_options[];
#define HELP_OPTIONS {NULL, '\0', POPT_ARG_INCLUDE_TABLE, help_options, 0, "Help:", NULL},

// The examples of "zerogauge train" and the like, a heading above them; nothing for an unknown command.
void help_print_examples(const char *command, FILE *out);

// Lists of names, one a line, what each is behind it; completion reads the first word.
void help_print_presets(FILE *out);
void help_print_models(FILE *out);

#endif
