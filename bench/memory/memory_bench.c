// SPDX-License-Identifier: Apache-2.0
// The operations and sizes that the user chose.
#include "bench/memory/memory_bench.h"

#include "base/err.h"

#include <string.h>

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

// Sizes are multiples of the stamps' distance, which is also one of 16-byte loads.
enum { UNIT = MEMORY_STAMP_WORDS * sizeof(memory_word) };

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
