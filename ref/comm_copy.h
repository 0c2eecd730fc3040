// SPDX-License-Identifier: Apache-2.0
// Copies for results that are larger than the caches: the processor neither reads the lines it overwrites nor keeps
// them, which saves a third of the traffic of a copy.
#ifndef ZG_COMM_COPY_H
#define ZG_COMM_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The sanitizers see ordinary stores only.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>

// Other threads see the bytes in order only after copy_around_cache_end.
static inline void copy_around_cache(void *to, const void *from, size_t bytes)
{
    enum { LINE_BYTES = 64 };
    size_t head = -(uintptr_t)to % LINE_BYTES;
    if (head > bytes)
        head = bytes;
    memcpy(to, from, head);
    char *out = (char *)to + head;
    const char *in = (const char *)from + head;
    size_t body = (bytes - head) / LINE_BYTES * LINE_BYTES;
    for (size_t i = 0; i < body; i += LINE_BYTES) {
        __m128i a = _mm_loadu_si128((const __m128i *)(in + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(in + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(in + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(in + i + 48));
        _mm_stream_si128((__m128i *)(out + i), a);
        _mm_stream_si128((__m128i *)(out + i + 16), b);
        _mm_stream_si128((__m128i *)(out + i + 32), c);
        _mm_stream_si128((__m128i *)(out + i + 48), d);
    }
    memcpy(out + body, in + body, bytes - head - body);
}

static inline void copy_around_cache_end(void)
{
    _mm_sfence();
}
#else
static inline void copy_around_cache(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static inline void copy_around_cache_end(void)
{
}
#endif

#endif
