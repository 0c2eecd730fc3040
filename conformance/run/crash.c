// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/crash.h"

#include "base/err.h"
#include "base/file.h"
#include "base/process/launch.h"
#include "base/safe_text.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 4096, LINE_MAX_COUNT = 1 << 20, PREFIX_MAX = 40 };

// Skips a launcher's "[rank0]: ".
static const char *without_prefix(const char *line)
{
    const char *end = line[0] == '[' ? strstr(line, "]: ") : NULL;
    if (!end && line[0] == '[')
        end = strstr(line, "]:\n");
    return end && end - line < PREFIX_MAX ? end + 3 : line;
}

static bool speaks_of_error(const char *line)
{
    static const char *const words[] = {"Error: ",    "error: ",  "Exception: ", "panicked at",
                                        "Assertion ", "what(): ", "Fatal ",      "fatal: "};
    if (strstr(line, "Warning") || strstr(line, "warning"))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(line, words[i]))
            return true;
    return false;
}

// Python's traceback ends with the first line that is not indented: the exception.
static bool find_line(FILE *file, char found[LINE_BYTES])
{
    char line[LINE_BYTES];
    bool in_traceback = false, whole = true;
    found[0] = '\0';
    for (int i = 0; i < LINE_MAX_COUNT && fgets(line, sizeof line, file); i++) {
        const char *text = without_prefix(line);
        bool begins = whole;  // a long line arrives in pieces
        whole = strchr(line, '\n') != NULL;
        if (!begins)
            continue;
        if (strstr(text, "Traceback (most recent call last)")) {
            in_traceback = true;
        } else if (in_traceback && text[0] != ' ' && text[0] != '\t' && !strchr("\r\n", text[0])) {
            snprintf(found, LINE_BYTES, "%s", text);
            return true;
        } else if (!in_traceback && !found[0] && speaks_of_error(text)) {
            snprintf(found, LINE_BYTES, "%s", text);
        }
    }
    return found[0] != '\0';
}

const char *crash_text(const char *output_path, char *out, size_t bytes)
{
    char line[LINE_BYTES], shown[TEXT_MESSAGE_BYTES];
    int fd;
    FILE *file = file_open_at(AT_FDCWD, output_path, output_path, &fd) == ERR_NONE ? fdopen(fd, "r") : NULL;
    bool found = file && find_line(file, line);
    if (file)
        fclose(file);
    if (!found)
        return launch_tail(output_path, out, bytes);
    line[strcspn(line, "\r\n")] = '\0';
    snprintf(out, bytes, "%s", text_message(shown, line, bytes > 8 ? bytes - 8 : 0));
    return out;
}
