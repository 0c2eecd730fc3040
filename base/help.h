// SPDX-License-Identifier: Apache-2.0
// --help: a command's options from its popt table, then the examples that the command keeps beside it.
#ifndef ZG_HELP_H
#define ZG_HELP_H

#include <popt.h>

#include <stdio.h>

// popt calls this for --help: prints usage, options and `examples` (strings, null at the end) and ends the program with
// status 0. Rows of HELP_OPTIONS have it.
void help_print(poptContext context, enum poptCallbackReason reason, const struct poptOption *option,
                const char *argument, const void *examples);

// --help as the last row but one of a command's popt table. The context's first argument is the whole command:
// "zerogauge train".
#define HELP_OPTIONS(examples)                                                                                         \
    {NULL,                                                                                                             \
     '\0',                                                                                                             \
     POPT_ARG_INCLUDE_TABLE,                                                                                           \
     (struct poptOption[]){{NULL, '\0', POPT_ARG_CALLBACK, (void *)help_print, 0, (const char *)(examples), NULL},     \
                           {"help", 'h', POPT_ARG_NONE, NULL, 'h', "show this text", NULL},                            \
                           POPT_TABLEEND},                                                                             \
     0,                                                                                                                \
     "Help:",                                                                                                          \
     NULL},

// The examples, a heading above them.
void help_print_examples(const char *const examples[], FILE *out);

#endif
