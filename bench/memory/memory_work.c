// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_work.h"

#include "base/err.h"

#include <assert.h>
#include <string.h>

// No byte of the data is ABSENT, so that a search for it reads all of it.
static const memory_word BITS = 0x7f7f7f7f7f7f7f7f;
enum { ABSENT = 0x80, GRADIENT = 3, TARGET = 4 };

const char *memory_operation_name(enum memory_operation operation)
{
    static const char *const names[MEMORY_OPERATION_COUNT] = {"copy",   "read",   "write", "adam_mix",
                                                              "memcpy", "memchr", "memset"};
    return names[operation];
}

int memory_operation_bytes(enum memory_operation operation)
{
    static const int bytes[MEMORY_OPERATION_COUNT] = {2, 1, 1, 7, 2, 1, 1};
    return bytes[operation];
}

memory_word memory_value_at(int array, size_t index)
{
    memory_word bits = (index + 1) * 0x9e3779b97f4a7c15 ^ (memory_word)(array + 1) << 40;
    return (bits ^ bits >> 29) & BITS;
}

static memory_word stamp(uint64_t round)
{
    return (round + 1) * 0x9e3779b97f4a7c15 & BITS;
}

// Returns the value that a word of an array must have now.
static memory_word expected_at(const struct memory_arrays *arrays, int array, size_t index)
{
    memory_word own =
        array == 0 && index % MEMORY_STAMP_WORDS == 0 ? stamp(arrays->round) : memory_value_at(array, index);
    return arrays->flipped && array < GRADIENT ? own ^ memory_value_at(GRADIENT, index) : own;
}

int memory_arrays_open(size_t count, int threads, bool huge, struct memory_arrays *out)
{
    assert(count > 0 && count % MEMORY_STAMP_WORDS == 0 && threads > 0);
    *out = (struct memory_arrays){.count = count, .threads = threads, .huge = huge};
    for (int a = 0; a < MEMORY_ARRAY_COUNT; a++) {
        memory_word *array = out->arrays[a] = bench_map(count * sizeof *array, huge);
        if (!array) {
            memory_arrays_close(out);
            return err_set(ERR_MEMORY, "no memory for %d arrays of %zu bytes; choose fewer with --sizes",
                           MEMORY_ARRAY_COUNT, count * sizeof *array);
        }
        bench_touch(array, count * sizeof *array, threads);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (size_t i = 0; i < count; i++)
            array[i] = expected_at(out, a, i);
    }
    return ERR_NONE;
}

void memory_arrays_close(struct memory_arrays *arrays)
{
    for (int a = 0; a < MEMORY_ARRAY_COUNT; a++)
        bench_free(arrays->arrays[a], arrays->count * sizeof(memory_word));
    *arrays = (struct memory_arrays){0};
}

static size_t wrong_in_state(const struct memory_work *work, int array)
{
    const struct memory_arrays *arrays = work->arrays;
    size_t wrong = 0;
#pragma omp parallel for num_threads(work->threads) schedule(static) reduction(+ : wrong)
    for (size_t i = 0; i < arrays->count; i++)
        wrong += arrays->arrays[array][i] != expected_at(arrays, array, i);
    return wrong;
}

static size_t wrong_in_target(const struct memory_work *work, bool copied)
{
    const struct memory_arrays *arrays = work->arrays;
    const memory_word *to = arrays->arrays[TARGET];
    size_t wrong = 0;
#pragma omp parallel for num_threads(work->threads) schedule(static) reduction(+ : wrong)
    for (size_t i = 0; i < arrays->count; i++)
        wrong += to[i] != (copied ? expected_at(arrays, 0, i) : work->value);
    return wrong;
}

int memory_arrays_check(struct memory_arrays *arrays)
{
    const struct memory_work *work = arrays->last;
    if (!work)
        return ERR_NONE;
    arrays->last = NULL;
    size_t wrong = 0;
    if (work->operation == MEMORY_ADAM_MIX)
        for (int array = 0; array < TARGET; array++)
            wrong += wrong_in_state(work, array);
    else
        wrong = wrong_in_target(work, work->operation == MEMORY_COPY || work->operation == MEMORY_COPY_LIBC);
    return wrong == 0 ? ERR_NONE
                      : err_set(ERR_CHECK, "%s of %zu words left %zu wrong ones",
                                memory_operation_name(work->operation), arrays->count, wrong);
}

static memory_word expected_sum(const struct memory_work *work)
{
    memory_word sum = 0;
#pragma omp parallel for num_threads(work->threads) schedule(static) reduction(+ : sum)
    for (size_t i = 0; i < work->arrays->count; i++)
        sum += expected_at(work->arrays, 0, i);
    return sum;
}

int memory_work_prepare(void *context)
{
    struct memory_work *work = context;
    struct memory_arrays *arrays = work->arrays;
    assert(arrays->count > 0 && work->threads > 0);
    TRY(memory_arrays_check(arrays));
    arrays->round++;
    for (size_t i = 0; i < arrays->count; i += MEMORY_STAMP_WORDS)
        arrays->arrays[0][i] = expected_at(arrays, 0, i);
    work->value = work->operation == MEMORY_READ ? expected_sum(work) : stamp(arrays->round);
    if (work->operation == MEMORY_WRITE_LIBC)
        memset(&work->value, (int)(work->value & 0x7f), sizeof work->value);
    return ERR_NONE;
}

static int run_read(const struct memory_work *work)
{
    const struct memory_arrays *arrays = work->arrays;
    bool right = work->operation == MEMORY_READ
                     ? memory_read(arrays->arrays[0], arrays->count, work->threads) == work->value
                     : memory_read_libc(arrays->arrays[0], arrays->count * sizeof(memory_word), ABSENT, work->threads);
    return right ? ERR_NONE : err_set(ERR_CHECK, "%s returned a wrong result", memory_operation_name(work->operation));
}

static void run_mix(struct memory_arrays *arrays, int threads)
{
    const struct streams streams = {.param = arrays->arrays[0],
                                    .exp_avg = arrays->arrays[1],
                                    .exp_avg_sq = arrays->arrays[2],
                                    .grad = arrays->arrays[GRADIENT],
                                    .grad_dtype = DTYPE_FP32,
                                    .count = arrays->count * (sizeof(memory_word) / sizeof(float))};
    streams_step(&streams, UINT32_MAX, threads, 1);
    arrays->flipped = !arrays->flipped;
}

int memory_work_run(void *context)
{
    struct memory_work *work = context;
    struct memory_arrays *arrays = work->arrays;
    memory_word *from = arrays->arrays[0], *to = arrays->arrays[TARGET];
    size_t bytes = arrays->count * sizeof *to;
    switch (work->operation) {
    case MEMORY_COPY:
        memory_copy(to, from, arrays->count, work->past_cache, work->threads);
        break;
    case MEMORY_WRITE:
        memory_write(to, arrays->count, work->value, work->past_cache, work->threads);
        break;
    case MEMORY_ADAM_MIX:
        run_mix(arrays, work->threads);
        break;
    case MEMORY_COPY_LIBC:
        memory_copy_libc(to, from, bytes, work->threads);
        break;
    case MEMORY_WRITE_LIBC:
        memory_write_libc(to, bytes, (unsigned char)work->value, work->threads);
        break;
    default:
        return run_read(work);
    }
    arrays->last = work;
    return ERR_NONE;
}
