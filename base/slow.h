// SPDX-License-Identifier: Apache-2.0
// What makes figures of this process several times too low without a fault of the machine.
#pragma once

#include <stddef.h>

enum { SLOW_MAX = 10, SLOW_BYTES = 192 };

// Writes the reasons and returns their number: a build without optimization, a debugger or another tracer, valgrind, an
// emulated processor, a processor whose vectors are hidden, a governor that keeps the clock low, a share of a
// processor, a limit on the instructions that oneDNN may use, a GPU below the figures of its model (gpu.h).
size_t slow_reasons(char out[SLOW_MAX][SLOW_BYTES]);

// Prints them on standard error, a line for each that begins with "SLOW: ", once in a process.
void slow_print(void);
