// SPDX-License-Identifier: Apache-2.0
// Memory streams of an optimizer step, vectorised by the compiler for the best instruction set of this CPU.
#include "bench/harness/streams.h"

#include "bench/harness/bench_target.h"
#include "ref/arithmetic/ivdep.h"
#include "ref/comm/comm_copy.h"

#include <assert.h>

// The optimizer's floats, moved as bits.
typedef uint32_t __attribute__((may_alias)) word_bits;
typedef uint16_t __attribute__((may_alias)) half_bits;

// Elements whose 16-bit copies fill a cache line.
enum { LINE = COPY_LINE_BYTES / sizeof(half_bits) };

// Moves elements [begin, end). half: gradients have 16 bits. copies: null, or receives the upper halves of param. The
// pointers are locals because the stores, which may alias anything, could otherwise change them.
static BENCH_INLINE void move(const struct streams *s, size_t begin, size_t end, bool half, half_bits *copies,
                              uint32_t mask)
{
    word_bits *restrict p = s->param, *restrict m = s->exp_avg, *restrict v = s->exp_avg_sq;
    const word_bits *words = s->grad;
    const half_bits *halves = s->grad;
    IVDEP
    for (size_t i = begin; i < end; i++) {
        uint32_t x = (half ? (uint32_t)halves[i] << 16 : words[i]) & mask;
        uint32_t updated = p[i] ^ x;
        p[i] = updated;
        m[i] ^= x;
        v[i] ^= x;
        if (copies)
            copies[i - begin] = (uint16_t)(updated >> 16);
    }
}

// Bytes that prefetching is ahead of the loop.
enum { AHEAD_BYTES = 512 };

static BENCH_INLINE void prefetch_line(const char *at, bool to_write)
{
    if (to_write)
        __builtin_prefetch(at, 1);
    else
        __builtin_prefetch(at);
}

// Fetches the lines of elements [begin, begin + LINE) of every stream that is read, AHEAD_BYTES ahead.
static BENCH_INLINE void prefetch(const struct streams *s, size_t begin, bool half)
{
    bool to_write = s->way == STREAMS_PREFETCH_TO_WRITE;
    const void *const written[] = {s->param, s->exp_avg, s->exp_avg_sq};
    for (int i = 0; i < 3; i++) {
        const char *at = (const char *)written[i] + begin * sizeof(word_bits) + AHEAD_BYTES;
        prefetch_line(at, to_write);
        prefetch_line(at + COPY_LINE_BYTES, to_write);
    }
    const char *grad = (const char *)s->grad + begin * (half ? sizeof(half_bits) : sizeof(word_bits)) + AHEAD_BYTES;
    prefetch_line(grad, false);
    if (!half)
        prefetch_line(grad + COPY_LINE_BYTES, false);
}

static BENCH_INLINE void move_ahead(const struct streams *s, size_t begin, size_t end, bool half, half_bits *copies,
                                    uint32_t mask)
{
    size_t i = begin;
    for (; i + LINE <= end; i += LINE) {
        prefetch(s, i, half);
        move(s, i, i + LINE, half, copies ? copies + (i - begin) : NULL, mask);
    }
    move(s, i, end, half, copies ? copies + (i - begin) : NULL, mask);
}

static BENCH_INLINE void move_past_cache(const struct streams *s, size_t begin, size_t end, bool half, uint32_t mask)
{
    half_bits *model_params = s->model_params;
    size_t i = begin;
    for (; i + LINE <= end; i += LINE) {
        _Alignas(COPY_LINE_BYTES) half_bits line[LINE];
        if (s->way != STREAMS_LOOP)
            prefetch(s, i, half);
        move(s, i, i + LINE, half, line, mask);
        copy_line_around_cache(model_params + i, line);
    }
    move(s, i, end, half, model_params + i, mask);
    copy_around_cache_end();
}

const char *streams_way_name(enum streams_way way)
{
    static const char *const names[STREAMS_WAY_COUNT] = {"loop", "prefetching loop", "loop prefetching to write"};
    return names[way];
}

static BENCH_INLINE void move_range(const struct streams *s, size_t begin, size_t end, uint32_t mask)
{
    bool half = s->grad_dtype != DTYPE_FP32;
    half_bits *model_params = s->model_params;
    if (model_params && s->past_cache && half)
        move_past_cache(s, begin, end, true, mask);
    else if (model_params && s->past_cache)
        move_past_cache(s, begin, end, false, mask);
    else if (s->way != STREAMS_LOOP && half)
        move_ahead(s, begin, end, true, model_params ? model_params + begin : NULL, mask);
    else if (s->way != STREAMS_LOOP)
        move_ahead(s, begin, end, false, model_params ? model_params + begin : NULL, mask);
    else if (model_params && half)
        move(s, begin, end, true, model_params + begin, mask);
    else if (model_params)
        move(s, begin, end, false, model_params + begin, mask);
    else if (half)
        move(s, begin, end, true, NULL, mask);
    else
        move(s, begin, end, false, NULL, mask);
}

static BENCH_INLINE uint32_t largest_range(const word_bits *words, size_t begin, size_t end)
{
    uint32_t max = 0;
    for (size_t i = begin; i < end; i++)
        max = words[i] > max ? words[i] : max;
    return max;
}

// The baseline ignores --isa: it shows the most that the machine can do.
BENCH_BUILDS(void, move, (const struct streams *s, size_t begin, size_t end, uint32_t mask),
             move_range(s, begin, end, mask));
BENCH_BUILDS(uint32_t, largest, (const word_bits *words, size_t begin, size_t end), largest_range(words, begin, end));

// Returns the first element of a part, aligned to a cache line of the 16-bit copy.
static size_t part_begin(size_t count, int part, int parts)
{
    return part == parts ? count : count / (size_t)parts / LINE * LINE * (size_t)part;
}

void streams_step(const struct streams *streams, uint32_t mask, int threads, uint64_t rounds)
{
    assert(streams->param && streams->exp_avg && streams->exp_avg_sq && streams->grad && threads > 0);
    assert((uintptr_t)streams->model_params % COPY_LINE_BYTES == 0);
    enum isa isa = isa_best();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++)
        for (uint64_t round = 0; round < rounds; round++)
            move_builds[isa](streams, part_begin(streams->count, part, threads),
                             part_begin(streams->count, part + 1, threads), mask);
}

uint32_t streams_read(const struct streams *streams, int threads)
{
    enum isa isa = isa_best();
    size_t words = streams->count * dtype_bytes(streams->grad_dtype) / sizeof(uint32_t);
    uint32_t max = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : max)
    for (int part = 0; part < threads; part++) {
        uint32_t found =
            largest_builds[isa](streams->grad, part_begin(words, part, threads), part_begin(words, part + 1, threads));
        max = found > max ? found : max;
    }
    return max;
}
