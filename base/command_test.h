// SPDX-License-Identifier: Apache-2.0
// For tests of the program's output: runs a command line and returns its exit status and output.
#pragma once

#include <criterion/criterion.h>

#include <stdio.h>
#include <sys/wait.h>

// Runs a shell's command line and returns its exit status; output receives its standard output, truncated to fit.
static int command_run(const char *command, char *output, size_t output_bytes)
{
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    output[fread(output, 1, output_bytes - 1, pipe)] = '\0';
    // Reads the rest, too: the writer would block on a full pipe.
    while (fgetc(pipe) != EOF)
        continue;
    int status = pclose(pipe);
    cr_assert(WIFEXITED(status), "%s", command);
    return WEXITSTATUS(status);
}
