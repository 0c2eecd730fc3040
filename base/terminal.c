// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_MAX = 512, WIDTH_DEFAULT = 80 };

static bool is_terminal(int fd)
{
    const char *kind = getenv("TERM");
    return isatty(fd) && !(kind && strcmp(kind, "dumb") == 0);
}

bool terminal_has_colours(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    return is_terminal(fileno(out)) && !(no_color && no_color[0]);
}

bool terminal_shows_progress(void)
{
    return is_terminal(STDERR_FILENO);
}

void terminal_progress(const char *format, ...)
{
    char text[WIDTH_MAX];
    struct winsize size = {0};
    va_list arguments;
    if (!terminal_shows_progress())
        return;
    ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    // Keeps one column free: a full line would scroll.
    fprintf(stderr, "\r\033[K%.*s", (size.ws_col > 0 ? size.ws_col : WIDTH_DEFAULT) - 1, text);
    fflush(stderr);
}
