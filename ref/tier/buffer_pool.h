// SPDX-License-Identifier: Apache-2.0
// A fixed number of staging buffers of one size that take turns: whoever asks gets the one asked for longest ago, and
// the executor orders its next use after its last one. How many there are is how far lanes may run apart.
#ifndef ZG_RING_H
#define ZG_RING_H

#include "ref/tier/tier.h"

struct buffer_pool {
    char *memory;         // begins on a page
    size_t buffer_bytes;  // a multiple of the alignment of NVMe
    int count, next;
};

// count buffers of at least bytes, kind staging, on that tier. count may be 0.
int buffer_pool_open(struct tier *tier, enum ledger_tier where, const char *name, size_t bytes, int count,
                     struct buffer_pool *out);

void *buffer_pool_take(struct buffer_pool *pool);

#endif
