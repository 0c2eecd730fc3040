// SPDX-License-Identifier: Apache-2.0
// The baselines of the optimizer: the memory streams of a step without its arithmetic, in place, in the same memory.
#ifndef ZG_STREAMS_H
#define ZG_STREAMS_H

#include "ref/arithmetic/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One step's streams: param, exp_avg and exp_avg_sq are read and written, grad is read, copy is written. Arrays begin
// at 64-byte boundaries.
struct streams {
    void *param, *exp_avg, *exp_avg_sq;  // [count] of 32 bits
    const void *grad;                    // [count] of 32 bits or, as grad_dtype says, 16
    enum dtype grad_dtype;
    void *model_params;  // [count] of 16 bits, the upper halves of param; null: none
    size_t count;
    bool past_cache;  // the copy goes to memory by stores that do not fetch its lines first
};

// x = bits of grad & mask; param ^= x, exp_avg ^= x, exp_avg_sq ^= x. With mask 0 every stream is moved and no bit is
// changed, which only the caller may know: it keeps the mask from the compiler. Each thread repeats its own part
// `rounds` times.
void streams_step(const struct streams *streams, uint32_t mask, int threads, uint64_t rounds);

// Reads the gradient alone; the largest word of it, so that the reading has a use.
uint32_t streams_read(const struct streams *streams, int threads);

#endif
