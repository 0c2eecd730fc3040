// SPDX-License-Identifier: Apache-2.0
// A fixed number of staging buffers of one size, handed out in turn. The executor orders each use of a buffer after the
// previous one, so the number of buffers limits how far one lane can run ahead of another.
#pragma once

#include "ref/tier/tier.h"

struct buffer_pool {
    char *memory;         // begins on a page
    size_t buffer_bytes;  // a multiple of TIER_NVME_ALIGNMENT
    int count, next;
};

// Allocates count buffers of at least bytes each, kind staging, on that tier, which owns them. count may be 0.
int buffer_pool_open(struct tier *tier, enum ledger_tier where, const char *name, size_t bytes, int count,
                     struct buffer_pool *out);

// Returns the buffer that was handed out longest ago. The pool is not empty.
void *buffer_pool_take(struct buffer_pool *pool);
