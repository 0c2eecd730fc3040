// SPDX-License-Identifier: Apache-2.0
// For tests: captures standard output as text, of a benchmark's command line too.
#pragma once

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct printed {
    FILE *file;
    int saved;
};

// Redirects standard output to a temporary file.
static inline struct printed printed_begin(void)
{
    struct printed printed = {.file = tmpfile()};
    cr_assert_not_null(printed.file);
    fflush(stdout);
    printed.saved = dup(STDOUT_FILENO);
    dup2(fileno(printed.file), STDOUT_FILENO);
    return printed;
}

// Restores standard output; returns the captured text, which the caller frees.
static inline char *printed_end(struct printed printed)
{
    fflush(stdout);
    dup2(printed.saved, STDOUT_FILENO);
    close(printed.saved);
    fseek(printed.file, 0, SEEK_END);
    size_t length = (size_t)ftell(printed.file);
    rewind(printed.file);
    char *text = calloc(length + 1, 1);
    cr_assert_eq(fread(text, 1, length, printed.file), length);
    fclose(printed.file);
    return text;
}

typedef int printed_main(int argc, const char **argv);

// Runs a command with the words of `first`, ended by null, and then `words`, which blanks separate; returns its exit
// status. *text: what it printed, which the caller frees.
static inline int printed_run(printed_main *run, const char *const first[], const char *words, char **text)
{
    const char *argv[48];
    char copy[1024], *rest = copy;
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", words);
    while (*first)
        argv[argc++] = *first++;
    while ((argv[argc] = strtok_r(NULL, " ", &rest)))
        argc++;
    struct printed printed = printed_begin();
    int status = run(argc, argv);
    *text = printed_end(printed);
    return status;
}

// Expects each of these words after `first` to be bad input, for which nothing is printed. `bad` ends with null.
static inline void printed_expect_refused(printed_main *run, const char *const first[], const char *const bad[])
{
    for (; *bad; bad++) {
        char *text;
        cr_expect_eq(printed_run(run, first, *bad, &text), 2, "%s", *bad);
        cr_expect_str_empty(text);
        free(text);
    }
}
