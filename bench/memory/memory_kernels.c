// SPDX-License-Identifier: Apache-2.0
// Loops are vectorised by the compiler for the best instruction set of this CPU. The build keeps the compiler from
// turning them into calls of memcpy and memset, which are ways of their own.
#include "bench/memory/memory_kernels.h"

#include "bench/harness/bench_target.h"
#include "ref/comm/comm_copy.h"

#include <assert.h>
#include <string.h>

enum { LINE_WORDS = COPY_LINE_BYTES / sizeof(memory_word) };

// Handles one thread's part. from null: sets `to` to value; to null: returns the sum of `from`; neither: copies.
static BENCH_INLINE memory_word move_part(memory_word *restrict to, const memory_word *restrict from, size_t count,
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

BENCH_BUILDS(memory_word, move, (memory_word * to, const memory_word *from, size_t count, memory_word value),
             move_part(to, from, count, value));

// Returns the first word of a part, aligned to a cache line.
static size_t part_begin(size_t count, int part, int parts)
{
    return part == parts ? count : count / (size_t)parts / LINE_WORDS * LINE_WORDS * (size_t)part;
}

static __attribute__((unused)) bool is_aligned(const void *memory)
{
    return (uintptr_t)memory % COPY_LINE_BYTES == 0;
}

// String instructions, in which the processor itself chooses how to move the lines.
#if defined(__x86_64__)
static void rep_copy(void *to, const void *from, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static void rep_write(void *to, unsigned char byte, size_t bytes)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(byte) : "memory");
}
#else
static void rep_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void rep_write(void *to, unsigned char byte, size_t bytes)
{
    memset(to, byte, bytes);
}
#endif

static void copy_part(memory_word *to, const memory_word *from, size_t count, enum memory_way way, enum isa isa)
{
    switch (way) {
    case MEMORY_STREAMING:
        copy_around_cache(to, from, count * sizeof *to);
        copy_around_cache_end();
        break;
    case MEMORY_LIBC:
        memcpy(to, from, count * sizeof *to);
        break;
    case MEMORY_REP:
        rep_copy(to, from, count * sizeof *to);
        break;
    default:
        move_builds[isa](to, from, count, 0);
    }
}

void memory_copy(memory_word *to, const memory_word *from, size_t count, enum memory_way way, int threads)
{
    assert(is_aligned(to) && is_aligned(from) && threads > 0 && way != MEMORY_PREFETCH);
    enum isa isa = isa_best();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(count, part, threads), end = part_begin(count, part + 1, threads);
        copy_part(to + begin, from + begin, end - begin, way, isa);
    }
}

// Sums block by block, and fetches the next one meanwhile.
static memory_word read_ahead(const memory_word *from, size_t count, enum isa isa)
{
    enum { BLOCK_WORDS = 64 * LINE_WORDS };
    memory_word sum = 0;
    for (size_t at = 0; at < count; at += BLOCK_WORDS) {
        size_t words = count - at < BLOCK_WORDS ? count - at : BLOCK_WORDS;
        for (size_t line = 0; line < words; line += LINE_WORDS)
            __builtin_prefetch(from + at + words + line);
        sum += move_builds[isa](NULL, from + at, words, 0);
    }
    return sum;
}

memory_word memory_read(const memory_word *from, size_t count, enum memory_way way, int threads)
{
    assert(way == MEMORY_LOOP || way == MEMORY_PREFETCH);
    enum isa isa = isa_best();
    memory_word sum = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : sum)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(count, part, threads), end = part_begin(count, part + 1, threads);
        sum += way == MEMORY_PREFETCH ? read_ahead(from + begin, end - begin, isa)
                                      : move_builds[isa](NULL, from + begin, end - begin, 0);
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

static void write_part(memory_word *to, size_t count, memory_word value, enum memory_way way, enum isa isa)
{
    memory_word line[LINE_WORDS];
    size_t at = 0;
    if (way == MEMORY_LIBC) {
        memset(to, (unsigned char)value, count * sizeof *to);
        return;
    }
    if (way == MEMORY_REP) {
        rep_write(to, (unsigned char)value, count * sizeof *to);
        return;
    }
    for (int i = 0; i < LINE_WORDS; i++)
        line[i] = value;
    for (; way == MEMORY_STREAMING && at + LINE_WORDS <= count; at += LINE_WORDS)
        copy_line_around_cache(to + at, line);
    move_builds[isa](to + at, NULL, count - at, value);
    copy_around_cache_end();
}

void memory_write(memory_word *to, size_t count, memory_word value, enum memory_way way, int threads)
{
    assert(is_aligned(to) && threads > 0 && way != MEMORY_PREFETCH);
    enum isa isa = isa_best();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = part_begin(count, part, threads), end = part_begin(count, part + 1, threads);
        write_part(to + begin, end - begin, value, way, isa);
    }
}
