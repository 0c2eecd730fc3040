// SPDX-License-Identifier: Apache-2.0
// Memory for OpenBLAS where a limit may refuse it. Each thread in a product uses a buffer of the library, which maps a
// new one when all are in use, and tries for ever when it gets none. Under a limit the buffers are mapped here, after a
// look whether there is room; threads beyond their number wait for one.
#ifndef ZG_OPENBLAS_ROOM_H
#define ZG_OPENBLAS_ROOM_H

#include <stdbool.h>
#include <stddef.h>

// Finds out, before the library is loaded, whether there is a limit.
void openblas_room_open(void);

// Maps the first buffer of the library that was loaded. False: there is no room for it.
bool openblas_room_begin(void *handle);

// Writes which limit it is, and what to do; "" where there is none.
void openblas_room_explain(char *text, size_t bytes);

// Around each product.
void openblas_room_enter(void);
void openblas_room_leave(void);

#endif
