// SPDX-License-Identifier: Apache-2.0
// Copying, reading and writing memory, by own loops and by the C library. Each is split over OpenMP threads into the
// parts that bench_alloc's threads touched first.
#ifndef ZG_MEMORY_KERNELS_H
#define ZG_MEMORY_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Arrays consist of words and begin at 64-byte boundaries.
typedef uint64_t memory_word;

// Copies. past_cache: by non-temporal stores, which do not fetch the cache lines that they write.
void memory_copy(memory_word *to, const memory_word *from, size_t count, bool past_cache, int threads);
void memory_copy_libc(void *to, const void *from, size_t bytes, int threads);  // memcpy

// Returns the sum of all words; with memchr, whether no byte is `absent`.
memory_word memory_read(const memory_word *from, size_t count, int threads);
bool memory_read_libc(const void *from, size_t bytes, unsigned char absent, int threads);

// Sets every word to `value`; with memset every byte.
void memory_write(memory_word *to, size_t count, memory_word value, bool past_cache, int threads);
void memory_write_libc(void *to, size_t bytes, unsigned char value, int threads);

#endif
