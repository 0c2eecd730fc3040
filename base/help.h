// SPDX-License-Identifier: Apache-2.0
// What --help, the manual page and shell completion know of a command: its popt table, and a struct help beside it.
#ifndef ZG_HELP_H
#define ZG_HELP_H

#include <popt.h>

#include <stdio.h>

struct help {
    const char *usage;            // behind the command's name: "[OPTION...] FILE..."
    const char *text;             // what the command does, in sentences; "\n" begins a paragraph
    const char *const *examples;  // command lines; null behind the last
};

// Writes help in another form than that of --help. `command` is whole: "zerogauge train".
typedef void help_writer(const char *command, const struct poptOption *options, const struct help *help);

// Takes the place of the text of --help where it is not null. For the program, before it calls a command.
extern help_writer *help_write;

// Prints the help of a command, or has help_write do it. The context's first argument is the whole command.
void help_show(poptContext context, const struct poptOption *options, const struct help *help);

// popt calls this for --help, which rows of HELP_OPTIONS have: help_show, and the program ends with status 0.
void help_print(poptContext context, enum poptCallbackReason reason, const struct poptOption *option,
                const char *argument, const void *row);

struct help_row {
    const struct poptOption *options;
    const struct help *help;
};

// --help as the last row but one of the popt table `options`, an array that this is part of.
#define HELP_OPTIONS(options, help)                                                                                    \
    {NULL,                                                                                                             \
     '\0',                                                                                                             \
     POPT_ARG_INCLUDE_TABLE,                                                                                           \
     (struct poptOption[]){{NULL, '\0', POPT_ARG_CALLBACK, (void *)help_print, 0,                                      \
                            (const char *)&(const struct help_row){options, help}, NULL},                              \
                           {"help", 'h', POPT_ARG_NONE, NULL, 'h', "show this text", NULL},                            \
                           POPT_TABLEEND},                                                                             \
     0,                                                                                                                \
     "Help:",                                                                                                          \
     NULL},

// Visits every option of a table and of the tables in it, in order. `group`: the heading of the table ("Checkpoints:"),
// or null.
typedef void help_visitor(void *context, const char *group, const struct poptOption *option);
void help_visit_options(const struct poptOption *options, help_visitor *visit, void *context);

// The examples, a heading above them.
void help_print_examples(const char *const examples[], FILE *out);

#endif
