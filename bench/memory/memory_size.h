// SPDX-License-Identifier: Apache-2.0
// The arrays of a memory operation: larger than the caches where memory and time permit it.
#ifndef ZG_MEMORY_SIZE_H
#define ZG_MEMORY_SIZE_H

#include "bench/memory/memory_work.h"

// The caches and the memory of the machine.
struct memory_room {
    size_t cache_bytes;   // of all last-level caches
    size_t memory_bytes;  // that may be allocated
    bool quick;
};

struct memory_size {
    size_t bytes;        // of each array, a multiple of the stamps' distance
    bool in_cache;       // all arrays of the operation together are no larger than the caches
    size_t needs_bytes;  // memory of the smallest arrays that are larger
};

// Returns the arrays of an operation of which `sets` are open together: four times the caches together, in a quick run
// where that is more than 1 GiB twice; at least 64 MiB each; or as much as the memory permits.
struct memory_size memory_size_of(enum memory_operation operation, int sets, const struct memory_room *room);

// The same for arrays of `bytes`.
struct memory_size memory_size_given(enum memory_operation operation, size_t bytes, const struct memory_room *room);

#endif
