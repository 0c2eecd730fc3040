// SPDX-License-Identifier: Apache-2.0
// A tier's allocations in an accelerator's memory. Each lies between two borders, which hold the NaN pattern for as
// long as nobody writes beyond an end.
#ifndef ZG_TIER_APART_H
#define ZG_TIER_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct accelerator;

// bytes on the calling thread's device, claimed for the accelerator and filled with the NaN pattern; *begin and *end
// enclose the borders. bytes == 0 gives an address that must not be touched. ERR_MEMORY when the device has no more.
int apart_allocate(const struct accelerator *accelerator, const char *name, size_t bytes, uint8_t **out,
                   uintptr_t *begin, uintptr_t *end);

// False if somebody wrote to a border. A device that has failed, and cannot be asked, says nothing against it.
bool apart_release(const struct accelerator *accelerator, uint8_t *address, size_t bytes);

#endif
