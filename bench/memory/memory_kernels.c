// SPDX-License-Identifier: Apache-2.0
// Copies, reads and writes, vectorised by the compiler for the best instruction set that this processor has. It does
// not put calls of memcpy and memset in their place: those are the baseline.
#include "bench/memory/memory_kernels.h"

#include "ref/arithmetic/isa.h"
#include "ref/comm/comm_copy.h"

#include <string.h>

#define KERNEL_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define KERNEL_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define KERNEL_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define KERNEL_AVX2 __attribute__((target("avx2")))

enum { LINE_WORDS = COPY_LINE_BYTES / sizeof(memory_word) };

// One thread's part. Null `from`: writes value to all of `to`. Null `to`: the sum of `from`. Neither: a copy.
KERNEL_INLINE memory_word move(memory_word *restrict to, const memory_word *restrict from, size_t count,
                               memory_word value)
{
    memory_word sum = 0;
    if (!to)
        for (size_t i = 0; i < count; i++)
            sum += from[i];
    else if (!from)
        for (size_t i = 0; i < count; i++)
            to[i] = value;
    else
        for (size_t i = 0; i < count; i++)
            to[i] = from[i];
    return sum;
}

KERNEL_AVX512 static memory_word move_avx512(memory_word *to, const memory_word *from, size_t count, memory_word value)
{
    return move(to, from, count, value);
}

KERNEL_AVX2 static memory_word move_avx2(memory_word *to, const memory_word *from, size_t count, memory_word value)
{
    return move(to, from, count, value);
}

static memory_word move_scalar(memory_word *to, const memory_word *from, size_t count, memory_word value)
{
    return move(to, from, count, value);
}

static memory_word (*const builds[ISA_COUNT])(memory_word *, const memory_word *, size_t, memory_word) = {
    [ISA_SCALAR] = move_scalar,
    [ISA_AVX2] = move_avx2,
    [ISA_AVX512] = move_avx512,
};

// Where part `part` of `parts` begins: at a line.
static size_t part_begin(size_t count, int part, int parts)
{
    return part == parts ? count : count / (size_t)parts / LINE_WORDS * LINE_WORDS * (size_t)part;
}

void memory_copy(memory_word *to, const memory_word *from, size_t count, bool past_cache, int threads)
{
    enum isa isa = isa_best();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(count, part, threads), end = part_begin(count, part + 1, threads);
        if (!past_cache) {
            builds[isa](to + begin, from + begin, end - begin, 0);
            continue;
        }
        copy_around_cache(to + begin, from + begin, (end - begin) * sizeof *to);
        copy_around_cache_end();
    }
}

void memory_copy_libc(void *to, const void *from, size_t bytes, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(bytes, part, threads), end = part_begin(bytes, part + 1, threads);
        memcpy((char *)to + begin, (const char *)from + begin, end - begin);
    }
}

memory_word memory_read(const memory_word *from, size_t count, int threads)
{
    enum isa isa = isa_best();
    memory_word sum = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : sum)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(count, part, threads), end = part_begin(count, part + 1, threads);
        sum += builds[isa](NULL, from + begin, end - begin, 0);
    }
    return sum;
}

bool memory_read_libc(const void *from, size_t bytes, unsigned char absent, int threads)
{
    int found = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : found)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(bytes, part, threads), end = part_begin(bytes, part + 1, threads);
        found += memchr((const char *)from + begin, absent, end - begin) != NULL;
    }
    return found == 0;
}

void memory_write(memory_word *to, size_t count, memory_word value, bool past_cache, int threads)
{
    enum isa isa = isa_best();
    memory_word line[LINE_WORDS];
    for (int i = 0; i < LINE_WORDS; i++)
        line[i] = value;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(count, part, threads), end = part_begin(count, part + 1, threads), at = begin;
        for (; past_cache && at + LINE_WORDS <= end; at += LINE_WORDS)
            copy_line_around_cache(to + at, line);
        builds[isa](to + at, NULL, end - at, value);
        copy_around_cache_end();
    }
}

void memory_write_libc(void *to, size_t bytes, unsigned char value, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(bytes, part, threads), end = part_begin(bytes, part + 1, threads);
        memset((char *)to + begin, value, end - begin);
    }
}
