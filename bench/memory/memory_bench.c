// SPDX-License-Identifier: Apache-2.0
// The operations and sizes that the user chose, and arrays that are larger than the caches where memory and time
// permit.
#include "bench/memory/memory_bench.h"

#include "base/err.h"

#include <string.h>

// Sizes are multiples of the stamps' distance, which is also one of 16-byte loads.
enum { UNIT = MEMORY_STAMP_WORDS * sizeof(memory_word) };

static const size_t LEAST = (size_t)64 << 20, QUICK = (size_t)1 << 30;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

// The same as memory_size_of for arrays of `bytes`.
static struct memory_size memory_size_given(enum memory_operation operation, size_t bytes,
                                            const struct memory_room *room)
{
    size_t arrays = (size_t)memory_operation_arrays(operation);
    return (struct memory_size){.bytes = bytes, .in_cache = arrays * bytes <= room->cache_bytes};
}

struct memory_size memory_size_of(enum memory_operation operation, int sets, const struct memory_room *room)
{
    size_t arrays = (size_t)memory_operation_arrays(operation), cache = room->cache_bytes;
    size_t beyond = room->quick ? least(4 * cache, most(QUICK, 2 * cache)) : 4 * cache;
    size_t wanted = most(LEAST, beyond / arrays / UNIT * UNIT);
    size_t permitted = most(UNIT, room->memory_bytes / (size_t)sets / arrays / UNIT * UNIT);
    struct memory_size size = memory_size_given(operation, least(wanted, permitted), room);
    size.needs_bytes = (cache / arrays / UNIT * UNIT + UNIT) * arrays * (size_t)sets;
    return size;
}

bool memory_bench_wants(const struct memory_bench *bench, int operation)
{
    return !bench->operation || strcmp(bench->operation, memory_operation_name((enum memory_operation)operation)) == 0;
}

struct memory_size memory_bench_size(const struct memory_bench *bench, enum memory_operation operation, int sets,
                                     size_t given)
{
    const struct memory_room room = {bench->cache_bytes, bench->memory_bytes, bench->options.quick};
    return given > 0 ? memory_size_given(operation, given, &room) : memory_size_of(operation, sets, &room);
}

int memory_bench_sizes(struct memory_bench *bench, const size_t *sizes, size_t count)
{
    struct bench_options *options = &bench->options;
    bool known = !bench->operation;
    for (int operation = 0; operation < MEMORY_OPERATION_COUNT && !known; operation++)
        known = memory_bench_wants(bench, operation);
    if (!known)
        return err_set(ERR_USAGE, "unknown operation '%s'; known are copy, read, write, adam_mix", bench->operation);
    bench_default_sizes(options, sizes, count);
    bench_default_repeat(options, 15, 5, 1);
    for (size_t i = 0; i < options->size_count; i++)
        if (options->sizes[i] % UNIT != 0)
            return err_set(ERR_USAGE, "--sizes %zu: the bytes of an array must be a multiple of %d", options->sizes[i],
                           UNIT);
    return ERR_NONE;
}
