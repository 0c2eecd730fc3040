// SPDX-License-Identifier: Apache-2.0
// A tier's allocations in an accelerator's memory. Each lies between two borders that hold the NaN pattern
// (tier_poison.h) until a write out of bounds changes it.
#ifndef ZG_TIER_APART_H
#define ZG_TIER_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct accelerator;

// Allocates bytes on the calling thread's device, claims them for the accelerator and fills them with the NaN pattern.
// *begin and *end enclose the borders. bytes == 0 gives an address that must not be accessed. ERR_MEMORY: the device is
// out of memory.
int apart_allocate(const struct accelerator *accelerator, const char *name, size_t bytes, uint8_t **out,
                   uintptr_t *begin, uintptr_t *end);

// Returns false if a border has changed. Returns true if the device has failed, because the borders cannot be read.
bool apart_release(const struct accelerator *accelerator, uint8_t *address, size_t bytes);

#endif
