// SPDX-License-Identifier: Apache-2.0
// Threads on chosen cores.
#ifndef ZG_PIN_H
#define ZG_PIN_H

#include <stddef.h>

// Pins the calling thread. ERR_USAGE: this process may not run there.
int pin_to(int core);

// The cores that this process may run on, as the system numbers them, ascending; at most `most`. Returns their number.
size_t pin_cores(int out[], size_t most);

#endif
