// SPDX-License-Identifier: Apache-2.0
// The manual page: packaging/zerogauge.1.in, a frame in mdoc, with sections generated from the commands' option tables.
#ifndef ZG_MANUAL_H
#define ZG_MANUAL_H

#include <stdio.h>

// Prints the frame with the sections instead of its line @COMMANDS@. Returns the exit status.
int manual_fill(FILE *frame);

#endif
