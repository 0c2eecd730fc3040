// SPDX-License-Identifier: Apache-2.0
// Arrays that grow one element at a time.
#pragma once

#include <stddef.h>

// Makes room for an element behind `count` others in an array with room for *room elements of element_bytes: doubles
// the room when there is none left. array: the address of the array's pointer; null and a room of 0 at first.
// ERR_MEMORY names `what` the elements are; the array is unchanged then.
int array_grow(void *array, size_t *room, size_t count, size_t element_bytes, const char *what);
