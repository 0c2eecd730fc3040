// SPDX-License-Identifier: Apache-2.0
// Colours, and progress on a terminal's last line. A file, a pipe or a dumb terminal gets neither.
#pragma once

#include <stdbool.h>
#include <stdio.h>

// True if out is a terminal that is not dumb, and NO_COLOR is not set.
bool terminal_has_colours(FILE *out);

// True if standard error is a terminal that is not dumb.
bool terminal_shows_progress(void);

// Overwrites the last line of standard error if it shows progress. An empty text removes the line; until then nothing
// else may be written there. Truncates the text to a line. The text is ASCII.
void terminal_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
