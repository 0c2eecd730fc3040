// SPDX-License-Identifier: Apache-2.0
// Ways to move what is larger than the caches. Stores around them neither read the lines they overwrite nor keep them,
// which saves a third of the traffic of a copy.
#ifndef ZG_COMM_COPY_H
#define ZG_COMM_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { COPY_LINE_BYTES = 64, COPY_LINE_FLOATS = COPY_LINE_BYTES / sizeof(float) };

// The sanitizers see ordinary stores only.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>

enum { COPY_UNIT_BYTES = 16 };  // what such a store needs `to` to be a multiple of

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

// Other threads see the bytes in order only after this.
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

#endif
