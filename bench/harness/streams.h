// SPDX-License-Identifier: Apache-2.0
// The optimizer's memory baseline: the streams of a step without its arithmetic, in place, in the same memory. There
// are several ways to move them; which one is fastest depends on the processor.
#pragma once

#include "ref/arithmetic/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A plain loop, or one that prefetches each stream some lines ahead, for processors whose hardware prefetcher cannot
// follow that many streams: as lines to read, or those that are written as such.
enum streams_way { STREAMS_LOOP, STREAMS_PREFETCH, STREAMS_PREFETCH_TO_WRITE, STREAMS_WAY_COUNT };

const char *streams_way_name(enum streams_way way);

// One step's streams: param, exp_avg and exp_avg_sq are read and written, grad is read, model_params is written. Arrays
// begin at 64-byte boundaries and do not overlap.
struct streams {
    void *param, *exp_avg, *exp_avg_sq;  // [count] of 32 bits
    const void *grad;                    // [count] of grad_dtype
    enum dtype grad_dtype;
    void *model_params;  // [count] of 16 bits, the upper halves of param; null: none
    size_t count;
    enum streams_way way;
    bool past_cache;  // writes model_params by non-temporal stores, which do not fetch its cache lines
};

// Computes x = bits of grad & mask; param ^= x, exp_avg ^= x, exp_avg_sq ^= x. Each thread repeats its part `rounds`
// times. Mask 0 moves every stream and changes no bit; the caller must hide its value from the compiler.
void streams_step(const struct streams *streams, uint32_t mask, int threads, uint64_t rounds);

// Reads the gradient. Returns its largest word, so that the compiler keeps the loads.
uint32_t streams_read(const struct streams *streams, int threads);
