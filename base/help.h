// SPDX-License-Identifier: Apache-2.0
// Descriptions of a command for --help, the manual page and shell completion: its popt table and a struct help.
#pragma once

#include <popt.h>

#include <stdio.h>

struct help {
    const char *usage;            // after the command's name: "[OPTION...] FILE..."
    const char *text;             // describes the command in sentences; "\n" begins a paragraph
    const char *const *examples;  // command lines, ended by null
};

// Writes help in another form than --help. command: "zerogauge train".
typedef void help_writer(const char *command, const struct poptOption *options, const struct help *help);

// If not null, replaces the text of --help. The program sets it before it calls a command.
extern help_writer *help_write;

// Prints the help of a command, or calls help_write. The context's first argument is the full command.
void help_show(poptContext context, const struct poptOption *options, const struct help *help);

// The callback of HELP_OPTIONS for --help: calls help_show and exits with status 0.
void help_print(poptContext context, enum poptCallbackReason reason, const struct poptOption *option,
                const char *argument, const void *row);

// The `val` of an option that takes a number above 0, where the 0 that it holds at first says that it was not given.
// Its line tells it from the others of a table.
#define HELP_ABOVE_ZERO (1 << 16 | __LINE__)

// As poptGetNextOpt, of a context of `options`; refuses another number for such an option, by a code that
// help_options_end takes.
int help_next(poptContext context, const struct poptOption *options);

// After the last poptGetNextOpt or help_next of a context of `argv`, which returned `code`: ERR_USAGE for an option
// that is wrong, help_no_arguments also for an argument of a command that takes none.
int help_options_end(poptContext context, const char **argv, int code);
int help_no_arguments(poptContext context, const char **argv, int code);

// Frees the texts, and lists of texts, that popt has allocated for the options of a table, and sets them to null.
void help_release(const struct poptOption *options);

struct help_row {
    const struct poptOption *options;
    const struct help *help;
};

// The row of --help, the last but one of the popt table `options`, which contains it.
#define HELP_OPTIONS(options, help)                                                                                    \
    {NULL,                                                                                                             \
     '\0',                                                                                                             \
     POPT_ARG_INCLUDE_TABLE,                                                                                           \
     (struct poptOption[]){{NULL, '\0', POPT_ARG_CALLBACK, (void *)help_print, 0,                                      \
                            (const char *)&(const struct help_row){options, help}, NULL},                              \
                           {"help", 'h', POPT_ARG_NONE, NULL, 'h', "show this help", NULL},                            \
                           POPT_TABLEEND},                                                                             \
     0,                                                                                                                \
     "Help:",                                                                                                          \
     NULL},

// Visits every option of a table and its nested tables, in order. group: the heading of the nested table
// ("Checkpoints:"), or null.
typedef void help_visitor(void *context, const char *group, const struct poptOption *option);
void help_visit_options(const struct poptOption *options, help_visitor *visit, void *context);

// Prints the examples under a heading.
void help_print_examples(const char *const examples[], FILE *out);
