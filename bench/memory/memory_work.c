// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_work.h"

#include "base/err.h"
#include "ref/comm/comm_copy.h"

#include <assert.h>
#include <string.h>

// No byte of the data is ABSENT, so that a search for it reads all of it.
static const memory_word BITS = 0x7f7f7f7f7f7f7f7f;
enum { ABSENT = 0x80, GRADIENT = 3, TARGET = 4 };

#ifdef __x86_64__
enum { MEMORY_HAS_REP = 1 };
#else
enum { MEMORY_HAS_REP = 0 };
#endif
enum { MEMORY_HAS_STREAMING = COPY_UNIT_BYTES > 1 };

const char *memory_operation_name(enum memory_operation operation)
{
    static const char *const names[MEMORY_OPERATION_COUNT] = {"copy", "read", "write", "adam_mix"};
    return names[operation];
}

int memory_operation_bytes(enum memory_operation operation)
{
    static const int bytes[MEMORY_OPERATION_COUNT] = {2, 1, 1, 7};
    return bytes[operation];
}

// The arrays of each operation.
static const bool uses[MEMORY_OPERATION_COUNT][MEMORY_ARRAY_COUNT] = {
    [MEMORY_COPY] = {[0] = true, [TARGET] = true},
    [MEMORY_READ] = {[0] = true},
    [MEMORY_WRITE] = {[TARGET] = true},
    [MEMORY_ADAM_MIX] = {[0] = true, [1] = true, [2] = true, [GRADIENT] = true},
};

int memory_operation_arrays(enum memory_operation operation)
{
    int count = 0;
    for (int a = 0; a < MEMORY_ARRAY_COUNT; a++)
        count += uses[operation][a];
    return count;
}

const char *memory_way_name(enum memory_operation operation, enum memory_way way)
{
    static const char *const names[MEMORY_OPERATION_COUNT][MEMORY_WAY_COUNT] = {
        [MEMORY_COPY] = {"loop", NULL, "streaming stores", "memcpy", "rep movsb"},
        [MEMORY_READ] = {"loop", "prefetching loop", NULL, "memchr", NULL},
        [MEMORY_WRITE] = {"loop", NULL, "streaming stores", "memset", "rep stosb"},
        [MEMORY_ADAM_MIX] = {"loop", "prefetching loop", NULL, NULL, NULL},
    };
    bool absent = (way == MEMORY_STREAMING && !MEMORY_HAS_STREAMING) || (way == MEMORY_REP && !MEMORY_HAS_REP);
    return absent ? NULL : names[operation][way];
}

enum memory_way memory_own_way(enum memory_operation operation, bool in_cache)
{
    bool stores = operation == MEMORY_COPY || operation == MEMORY_WRITE;
    return stores && !in_cache ? MEMORY_STREAMING : MEMORY_LOOP;
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

// Writes an array's values, whose stamps are in the first array only.
static void fill(const struct memory_arrays *arrays, int array)
{
    memory_word *words = arrays->arrays[array];
#pragma omp parallel for num_threads(arrays->checking_threads) schedule(static)
    for (size_t i = 0; i < arrays->count; i++)
        words[i] = expected_at(arrays, array, i);
}

int memory_arrays_open(enum memory_operation operation, size_t count, int threads, int checking_threads, bool huge,
                       struct memory_arrays *out)
{
    assert(count > 0 && count % MEMORY_STAMP_WORDS == 0 && threads > 0 && checking_threads > 0);
    *out = (struct memory_arrays){
        .operation = operation, .count = count, .threads = threads, .checking_threads = checking_threads, .huge = huge};
    for (int a = 0; a < MEMORY_ARRAY_COUNT; a++) {
        if (!uses[operation][a])
            continue;
        out->arrays[a] = bench_map(count * sizeof(memory_word), huge);
        if (!out->arrays[a]) {
            memory_arrays_close(out);
            return err_set(ERR_MEMORY, "no memory for %d arrays of %zu bytes; choose fewer with --sizes",
                           memory_operation_arrays(operation), count * sizeof(memory_word));
        }
        bench_touch(out->arrays[a], count * sizeof(memory_word), threads);
        fill(out, a);
    }
    return ERR_NONE;
}

void memory_arrays_close(struct memory_arrays *arrays)
{
    for (int a = 0; a < MEMORY_ARRAY_COUNT; a++)
        bench_free(arrays->arrays[a], arrays->count * sizeof(memory_word));
    *arrays = (struct memory_arrays){0};
}

static size_t wrong_in_state(const struct memory_arrays *arrays, int array)
{
    size_t wrong = 0;
#pragma omp parallel for num_threads(arrays->checking_threads) schedule(static) reduction(+ : wrong)
    for (size_t i = 0; i < arrays->count; i++)
        wrong += arrays->arrays[array][i] != expected_at(arrays, array, i);
    return wrong;
}

static size_t wrong_in_target(const struct memory_work *work)
{
    const struct memory_arrays *arrays = work->arrays;
    const memory_word *to = arrays->arrays[TARGET];
    bool copied = arrays->operation == MEMORY_COPY;
    size_t wrong = 0;
#pragma omp parallel for num_threads(arrays->checking_threads) schedule(static) reduction(+ : wrong)
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
    if (arrays->operation == MEMORY_ADAM_MIX)
        for (int array = 0; array < TARGET; array++)
            wrong += wrong_in_state(arrays, array);
    else
        wrong = wrong_in_target(work);
    return wrong == 0 ? ERR_NONE
                      : err_set(ERR_CHECK, "%s by %s of %zu words left %zu wrong ones",
                                memory_operation_name(arrays->operation), memory_way_name(arrays->operation, work->way),
                                arrays->count, wrong);
}

static memory_word expected_sum(const struct memory_arrays *arrays)
{
    memory_word sum = 0;
#pragma omp parallel for num_threads(arrays->checking_threads) schedule(static) reduction(+ : sum)
    for (size_t i = 0; i < arrays->count; i++)
        sum += expected_at(arrays, 0, i);
    return sum;
}

int memory_work_prepare(void *context)
{
    struct memory_work *work = context;
    struct memory_arrays *arrays = work->arrays;
    bool reads = arrays->operation == MEMORY_READ;
    assert(arrays->count > 0 && work->threads > 0);
    TRY(memory_arrays_check(arrays));
    arrays->round++;
    for (size_t i = 0; i < arrays->count && arrays->arrays[0]; i += MEMORY_STAMP_WORDS)
        arrays->arrays[0][i] = expected_at(arrays, 0, i);
    work->value = stamp(arrays->round);
    if (reads && work->way != MEMORY_LIBC)
        work->value = expected_sum(arrays);
    if (!reads && (work->way == MEMORY_LIBC || work->way == MEMORY_REP))
        memset(&work->value, (int)(work->value & 0x7f), sizeof work->value);
    return ERR_NONE;
}

static int run_read(const struct memory_work *work)
{
    const struct memory_arrays *arrays = work->arrays;
    bool right = work->way == MEMORY_LIBC
                     ? memory_read_libc(arrays->arrays[0], arrays->count * sizeof(memory_word), ABSENT, work->threads)
                     : memory_read(arrays->arrays[0], arrays->count, work->way, work->threads) == work->value;
    return right ? ERR_NONE : err_set(ERR_CHECK, "%s returned a wrong result", memory_way_name(MEMORY_READ, work->way));
}

static void run_mix(const struct memory_work *work)
{
    struct memory_arrays *arrays = work->arrays;
    const struct streams streams = {.param = arrays->arrays[0],
                                    .exp_avg = arrays->arrays[1],
                                    .exp_avg_sq = arrays->arrays[2],
                                    .grad = arrays->arrays[GRADIENT],
                                    .grad_dtype = DTYPE_FP32,
                                    .count = arrays->count * (sizeof(memory_word) / sizeof(float)),
                                    .way = work->way == MEMORY_PREFETCH ? STREAMS_PREFETCH : STREAMS_LOOP};
    streams_step(&streams, UINT32_MAX, work->threads, 1);
    arrays->flipped = !arrays->flipped;
}

int memory_work_run(void *context)
{
    struct memory_work *work = context;
    struct memory_arrays *arrays = work->arrays;
    memory_word *to = arrays->arrays[TARGET];
    if (arrays->operation == MEMORY_READ)
        return run_read(work);
    if (arrays->operation == MEMORY_COPY)
        memory_copy(to, arrays->arrays[0], arrays->count, work->way, work->threads);
    else if (arrays->operation == MEMORY_WRITE)
        memory_write(to, arrays->count, work->value, work->way, work->threads);
    else
        run_mix(work);
    arrays->last = work;
    return ERR_NONE;
}

int memory_work_fastest(const struct memory_work *base, struct memory_work *out)
{
    enum { TRIALS = 3 };
    uint64_t ns, least_ns = UINT64_MAX;
    struct memory_work tried[MEMORY_WAY_COUNT];
    *out = *base;
    for (size_t trial = 0; bench_tries(TRIALS, trial); trial++)
        for (int way = 0; way < MEMORY_WAY_COUNT; way++) {
            if (!memory_way_name(base->arrays->operation, (enum memory_way)way))
                continue;
            tried[way] = *base;
            tried[way].way = (enum memory_way)way;
            const struct bench_work work = {"trial", memory_work_run, memory_work_prepare, &tried[way]};
            TRY(bench_time(&work, &ns));
            out->way = ns < least_ns ? (enum memory_way)way : out->way;
            least_ns = ns < least_ns ? ns : least_ns;
        }
    // The last trial's work does not outlive this function.
    return memory_arrays_check(base->arrays);
}
