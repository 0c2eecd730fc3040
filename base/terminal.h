// SPDX-License-Identifier: Apache-2.0
// Colours, and progress on a terminal's last line. Where output goes to a file or a pipe there is neither, nor on a
// terminal that calls itself dumb.
#ifndef ZG_TERMINAL_H
#define ZG_TERMINAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

// Whether out is such a terminal and the user has not set NO_COLOR.
bool terminal_has_colours(FILE *out);

// Whether standard error is such a terminal.
bool terminal_shows_progress(void);

// Writes over the last line of standard error, where it shows progress; nothing else is to be written there until the
// line is taken away, which an empty text does. What is too long for a line is cut off. The text is ASCII.
void terminal_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_progress_list(const char *format, va_list arguments);

#endif
