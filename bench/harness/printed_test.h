// SPDX-License-Identifier: Apache-2.0
// For tests: captures standard output as text.
#ifndef ZG_PRINTED_TEST_H
#define ZG_PRINTED_TEST_H

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
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

#endif
