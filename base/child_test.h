// SPDX-License-Identifier: Apache-2.0
// For tests of code that ends the program: runs a body in a child process and returns how it ended.
#ifndef ZG_CHILD_TEST_H
#define ZG_CHILD_TEST_H

#include <criterion/criterion.h>
#include <sys/wait.h>
#include <unistd.h>

struct child_end {
    int status;         // exit status; -1 if a signal ended it
    char output[4096];  // stderr, truncated to fit
};

// A body that returns ends the child with status 0.
static struct child_end child_run(void (*body)(void *argument), void *argument)
{
    struct child_end end = {.status = -1};
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        body(argument);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    char rest[4096];
    for (ssize_t got; (got = read(ends[0], rest, sizeof rest)) > 0;)
        for (ssize_t i = 0; i < got && length < sizeof end.output - 1; i++)
            end.output[length++] = rest[i];
    close(ends[0]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        end.status = WEXITSTATUS(status);
    return end;
}

#endif
