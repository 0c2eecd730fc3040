// SPDX-License-Identifier: Apache-2.0
// Copies, reads and writes, vectorised by the compiler for the best instruction set of this CPU. The build keeps the
// compiler from turning these loops into calls of memcpy and memset, which are the baseline.
#include "bench/memory/memory_kernels.h"

#include "bench/harness/bench_target.h"
#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/isa.h"
#include "ref/comm/comm_copy.h"

#include <assert.h>
#include <string.h>

enum { LINE_WORDS = COPY_LINE_BYTES / sizeof(memory_word) };

// Handles one thread's part. from null: sets `to` to value; to null: returns the sum of `from`; neither: copies.
static BENCH_INLINE memory_word move(memory_word *restrict to, const memory_word *restrict from, size_t count,
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

BENCH_AVX512 static memory_word move_avx512(memory_word *to, const memory_word *from, size_t count, memory_word value)
{
    return move(to, from, count, value);
}

BENCH_AVX2 static memory_word move_avx2(memory_word *to, const memory_word *from, size_t count, memory_word value)
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

// Returns the first word of a part, aligned to a cache line.
static size_t part_begin(size_t count, int part, int parts)
{
    return part == parts ? count : count / (size_t)parts / LINE_WORDS * LINE_WORDS * (size_t)part;
}

static __attribute__((unused)) bool is_aligned(const void *memory)
{
    return (uintptr_t)memory % COPY_LINE_BYTES == 0;
}

void memory_copy(memory_word *to, const memory_word *from, size_t count, bool past_cache, int threads)
{
    assert(is_aligned(to) && is_aligned(from) && threads > 0);
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
    assert(is_aligned(to) && threads > 0);
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
