// SPDX-License-Identifier: Apache-2.0
// For tests that send signals: a signal that arrives before a program has its handler ends it.
#pragma once

#include <criterion/criterion.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Returns whether the process runs zerogauge, which has a handler for the signal.
static inline bool has_handler(pid_t process, int signal_number)
{
    char path[64], line[256], name[64] = "";
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "Name: %63s", name);
        sscanf(line, "SigCgt: %llx", &caught);
    }
    if (file)
        fclose(file);
    return strcmp(name, "zerogauge") == 0 && (caught >> (signal_number - 1) & 1);
}

// Waits for that of a child, which may not end before.
static inline void await_handler(pid_t child, int signal_number)
{
    int status;
    while (!has_handler(child, signal_number)) {
        cr_assert_eq(waitpid(child, &status, WNOHANG), 0, "the program has ended, with status %#x", (unsigned)status);
        usleep(1000);
    }
}
