// SPDX-License-Identifier: Apache-2.0
// The manual page: a frame of mdoc, packaging/zerogauge.1.in, and the sections of the commands, made of their tables.
#ifndef ZG_MANUAL_H
#define ZG_MANUAL_H

#include <stdio.h>

// Prints the frame with the sections in place of its line @COMMANDS@. Returns the exit status.
int manual_fill(FILE *frame);

#endif
