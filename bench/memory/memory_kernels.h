// SPDX-License-Identifier: Apache-2.0
// The plainest things that can be done to memory, each cut over OpenMP threads, part by part as bench_alloc's memory is
// laid out; and what the C library has for the same.
#ifndef ZG_MEMORY_KERNELS_H
#define ZG_MEMORY_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A whole number of words; arrays begin at 64-byte boundaries.
typedef uint64_t memory_word;

// to = from. Past the caches, stores do not fetch their lines first.
void memory_copy(memory_word *to, const memory_word *from, size_t count, bool past_cache, int threads);
void memory_copy_libc(void *to, const void *from, size_t bytes, int threads);  // memcpy

// The sum of all words.
memory_word memory_read(const memory_word *from, size_t count, int threads);
bool memory_read_libc(const void *from, size_t bytes, unsigned char absent, int threads);  // memchr: not found

// Every word is `value`; with memset every byte.
void memory_write(memory_word *to, size_t count, memory_word value, bool past_cache, int threads);
void memory_write_libc(void *to, size_t bytes, unsigned char value, int threads);

#endif
