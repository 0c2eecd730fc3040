// SPDX-License-Identifier: Apache-2.0
// Copying, reading and writing memory in the ways that are known to be fast: own loops, streaming stores, the C library
// and the processor's string instructions. Which is fastest depends on processor and size. Each is split over OpenMP
// threads into the parts that bench_alloc's threads touched first.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Arrays consist of words and begin at 64-byte boundaries.
typedef uint64_t memory_word;

enum memory_way {
    MEMORY_LOOP,       // a loop that the compiler vectorises
    MEMORY_PREFETCH,   // the same, which fetches some lines ahead; of reads only
    MEMORY_STREAMING,  // non-temporal stores, which do not fetch the cache lines that they write
    MEMORY_LIBC,       // memcpy, memchr, memset
    MEMORY_REP,        // rep movsb, rep stosb
    MEMORY_WAY_COUNT
};

// Copies; not MEMORY_PREFETCH.
void memory_copy(memory_word *to, const memory_word *from, size_t count, enum memory_way way, int threads);

// Returns the sum of all words; MEMORY_LOOP or MEMORY_PREFETCH.
memory_word memory_read(const memory_word *from, size_t count, enum memory_way way, int threads);

// Returns whether no byte is `absent`, by memchr.
bool memory_read_libc(const void *from, size_t bytes, unsigned char absent, int threads);

// Sets every word to `value`, or by MEMORY_LIBC and MEMORY_REP every byte to its lowest one; not MEMORY_PREFETCH.
void memory_write(memory_word *to, size_t count, memory_word value, enum memory_way way, int threads);
