// SPDX-License-Identifier: Apache-2.0
// For tests of `zerogauge check` as a user meets it: commands in a folder of the test's own, and what they print.
#pragma once

#include "base/command_test.h"
#include "base/folder_test.h"

#include <stdarg.h>
#include <string.h>

static char folder[PATH_MAX], output[1 << 18];

static inline void check_setup(void)
{
    folder_make(folder);
}

static inline void check_teardown(void)
{
    folder_remove(folder);
}

// Runs a shell's command line in the folder; returns its exit status and leaves what it prints in output.
static inline int run_list(const char *before, const char *format, va_list arguments)
{
    char line[8192], command[2 * 8192];
    vsnprintf(line, sizeof line, format, arguments);
    snprintf(command, sizeof command, "cd %s && { %s%s\n} 2>&1", folder, before, line);
    return command_run(command, output, sizeof output);
}

__attribute__((format(printf, 1, 2))) static inline int run(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int status = run_list("", format, arguments);
    va_end(arguments);
    return status;
}

// As run, of `zerogauge check ARGUMENTS`.
__attribute__((format(printf, 1, 2))) static inline int check(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int status = run_list(ZG_BINARY_DIR "/zerogauge check ", format, arguments);
    va_end(arguments);
    return status;
}

static inline void has(const char *text)
{
    cr_assert_not_null(strstr(output, text), "no \"%s\" in: %s", text, output);
}

static inline void lacks(const char *text)
{
    cr_assert_null(strstr(output, text), "\"%s\" in: %s", text, output);
}

static inline const char *in_folder(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3000s/%s", folder, name);
    return path;
}

static inline bool is_in_folder(const char *name)
{
    return access(in_folder(name), R_OK) == 0;
}

// A file, which may be run as a program.
static inline void write_text(const char *name, const char *text)
{
    folder_write(in_folder(name), text, strlen(text));
    cr_assert_eq(chmod(in_folder(name), 0700), 0);
}
