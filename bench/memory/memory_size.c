// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_size.h"

static const size_t UNIT = MEMORY_STAMP_WORDS * sizeof(memory_word), LEAST = (size_t)64 << 20, QUICK = (size_t)1 << 30;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

struct memory_size memory_size_given(enum memory_operation operation, size_t bytes, const struct memory_room *room)
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
