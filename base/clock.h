// SPDX-License-Identifier: Apache-2.0
// The time since a fixed moment in the past, the same for all processes of a machine; monotonic.
#ifndef ZG_CLOCK_H
#define ZG_CLOCK_H

#include <stdint.h>

uint64_t clock_now_ns(void);
double clock_now_s(void);

#endif
