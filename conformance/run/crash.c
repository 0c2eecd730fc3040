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

// The bytes of a launcher's "[rank0]: ".
static size_t prefix_bytes(const char *line)
{
    const char *end = line[0] == '[' ? strstr(line, "]: ") : NULL;
    if (!end && line[0] == '[')
        end = strstr(line, "]:\n");
    return end && end - line < PREFIX_MAX ? (size_t)(end + 3 - line) : 0;
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

// True of a line between an exception and the next one of its chain.
static bool continues_chain(const char *text)
{
    return strstr(text, "During handling of the above exception, another exception occurred:") ||
           strstr(text, "The above exception was the direct cause of the following exception:");
}

// The exception with which a file's tracebacks end, as they are read line by line.
struct chain {
    bool in_traceback, ended;  // ended: another exception is of another rank, or of the end of this one
    bool goes_on;
    char prefix[PREFIX_MAX + 4], found[LINE_BYTES];  // of the rank whose exception was found
};

// Python's traceback ends with the first line that is not indented: the exception. Words between two exceptions are
// another rank's, which prints to the same file.
static void read_line(struct chain *chain, const char *line)
{
    size_t prefix = prefix_bytes(line);
    const char *text = line + prefix;
    bool is_other = chain->found[0] && (strlen(chain->prefix) != prefix || memcmp(chain->prefix, line, prefix) != 0);
    if (is_other)
        return;
    if (strstr(text, "Traceback (most recent call last)")) {
        chain->ended = chain->found[0] && !chain->goes_on;
        chain->in_traceback = true;
    } else if (chain->in_traceback && !strchr(" \t\r\n", text[0]) && !continues_chain(text)) {
        snprintf(chain->prefix, sizeof chain->prefix, "%.*s", (int)prefix, line);
        snprintf(chain->found, LINE_BYTES, "%s", text);
        chain->in_traceback = chain->goes_on = false;
    } else {
        chain->goes_on |= chain->found[0] && continues_chain(text);
    }
}

static bool find_line(FILE *file, char found[LINE_BYTES])
{
    char line[LINE_BYTES], error[LINE_BYTES] = "";
    struct chain chain = {0};
    bool whole = true;
    for (int i = 0; i < LINE_MAX_COUNT && !chain.ended && fgets(line, sizeof line, file); i++) {
        bool begins = whole;  // a long line arrives in pieces
        whole = strchr(line, '\n') != NULL;
        if (!begins)
            continue;
        if (!chain.in_traceback && !error[0] && speaks_of_error(line))
            snprintf(error, LINE_BYTES, "%s", line + prefix_bytes(line));
        read_line(&chain, line);
    }
    snprintf(found, LINE_BYTES, "%s", chain.found[0] ? chain.found : error);
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
