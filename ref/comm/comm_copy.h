// SPDX-License-Identifier: Apache-2.0
// Copies of buffers larger than the caches, with streaming stores. They neither read nor keep the cache lines that they
// overwrite, which saves a third of a copy's memory traffic.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { COPY_LINE_BYTES = 64 };

// The sanitizers do not see streaming stores.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>

enum { COPY_UNIT_BYTES = 16 };  // alignment of a streaming store

static inline void copy_line_around_cache(void *to, const void *from)
{
    const __m128i *in = from;
    __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    __m128i *out = to;
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
}

// Orders the streaming stores before later stores, for other threads.
static inline void copy_around_cache_end(void)
{
    _mm_sfence();
}
#else
enum { COPY_UNIT_BYTES = 1 };

static inline void copy_line_around_cache(void *to, const void *from)
{
    memcpy(to, from, COPY_LINE_BYTES);
}

static inline void copy_around_cache_end(void)
{
}
#endif

static inline void copy_around_cache(void *to, const void *from, size_t bytes)
{
    size_t at = -(uintptr_t)to % COPY_LINE_BYTES;
    if (at > bytes)
        at = bytes;
    memcpy(to, from, at);
    for (; at + COPY_LINE_BYTES <= bytes; at += COPY_LINE_BYTES)
        copy_line_around_cache((char *)to + at, (const char *)from + at);
    memcpy((char *)to + at, (const char *)from + at, bytes - at);
}
