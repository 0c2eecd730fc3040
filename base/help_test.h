// SPDX-License-Identifier: Apache-2.0
// For tests of what the program says of itself: lists that it prints, and every command it has.
#pragma once

#include "base/command_test.h"

#include <criterion/criterion.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINES_MAX = 64, TEXT_BYTES = 1 << 16 };

struct lines {
    char text[TEXT_BYTES];
    char *line[LINES_MAX];
    int count;
};

// The lines between `heading` and the next empty line of what `zerogauge ARGUMENTS` prints, without leading blanks.
static inline void lines_below(const char *heading, const char *arguments, struct lines *out)
{
    char command[4096];
    bool below = false;
    snprintf(command, sizeof command, "'%s/zerogauge' %s", ZG_BINARY_DIR, arguments);
    cr_assert_eq(command_run(command, out->text, sizeof out->text), 0, "%s: %s", command, out->text);
    out->count = 0;
    for (char *rest = out->text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (below && *line == '\0')
            break;
        cr_assert_lt(out->count, LINES_MAX);
        if (below)
            out->line[out->count++] = line + strspn(line, " ");
        below = below || strncmp(line, heading, strlen(heading)) == 0;
    }
}

// Calls `each` with "train", ..., "bench adam", ...: all commands but help and version, and all benchmarks.
static inline void for_each_command(void (*each)(const char *command))
{
    static struct lines commands, benchmarks;
    char name[256];
    lines_below("usage:", "help", &commands);
    lines_below("usage:", "bench --help", &benchmarks);
    cr_assert_geq(commands.count, 8);
    cr_assert_geq(benchmarks.count, 7);
    for (int i = 0; i < commands.count + benchmarks.count; i++) {
        const char *line = i < commands.count ? commands.line[i] : benchmarks.line[i - commands.count];
        snprintf(name, sizeof name, "%s%.*s", i < commands.count ? "" : "bench ", (int)strcspn(line, " "), line);
        if (strcmp(name, "help") != 0 && strcmp(name, "version") != 0)
            each(name);
    }
}
