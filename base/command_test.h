// SPDX-License-Identifier: Apache-2.0
// For tests of what the program says: runs a command line and gives back how it ended and what it printed.
#ifndef ZG_COMMAND_TEST_H
#define ZG_COMMAND_TEST_H

#include <criterion/criterion.h>

#include <stdio.h>
#include <sys/wait.h>

// The exit status of a shell's command line; what it prints is left in output, cut off there.
static int command_run(const char *command, char *output, size_t output_bytes)
{
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    output[fread(output, 1, output_bytes - 1, pipe)] = '\0';
    // What is cut off is read all the same: a writer that nobody reads would wait for ever.
    while (fgetc(pipe) != EOF)
        continue;
    int status = pclose(pipe);
    cr_assert(WIFEXITED(status), "%s", command);
    return WEXITSTATUS(status);
}

#endif
