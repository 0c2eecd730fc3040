// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/isa_host.h"
#include "ref/cuda/isa_table.cuh"
#include "ref/cuda/matmul_element.cuh"

// The number of threads of a loop. Each test is a process of its own, so this needs no lock.
static size_t threads = 7;

void isa_host_threads(size_t count)
{
    threads = count;
}

struct on_host {
    typedef host_block block;

    template <typename operation> static void run(const operation &o, size_t count, bool wide, const char *)
    {
        for (size_t thread = 0; thread < threads; thread++)
            each(o, {thread, threads}, count, wide);
    }

    template <typename operation> static void rows(const operation &o, size_t count, const char *)
    {
        const host_team team;
        for (size_t row = 0; row < count; row++)
            o.row(team, row);
    }

    template <typename operation> static void tasks(const operation &o, size_t count, const char *)
    {
        typename operation::memory shared;
        for (size_t index = 0; index < count; index++)
            o.task(host_block(), index, shared);
    }

    template <typename operation> static void long_rows(const operation &o, size_t count, const char *what)
    {
        rows(o, count, what);
    }

    static void stream(const stream_operation &o, size_t block_count, const char *)
    {
        for (size_t first = 0; first < block_count * SUM_ROWS; first += SUM_ROWS / 2) {
            const size_t end = o.row_count < first + SUM_ROWS / 2 ? o.row_count : first + SUM_ROWS / 2;
            for (size_t r = first; r < end; r++)
                o.row(host_team(), r);
            for (size_t j = 0; first < end && j < o.columns(); j++)
                o.column(j, first, end);
        }
    }

    template <typename operation, typename row_operation>
    static void with_rows(const operation &o, size_t count, bool wide, const row_operation &of_rows, size_t row_count,
                          const char *what)
    {
        run(o, count, wide, what);
        rows(of_rows, row_count, what);
    }

    static void *scratch(size_t bytes, enum scratch which)
    {
        static void *memory[SCRATCH_COUNT];
        return memory[which] = realloc(memory[which], bytes + 1);
    }

    static int give(void *to, const void *from, size_t bytes, const char *)
    {
        memcpy(to, from, bytes);
        return 0;
    }

    static int fetch(void *to, const void *from, size_t bytes, const char *)
    {
        memcpy(to, from, bytes);
        return 0;
    }

    static void max(const norm_max_operation &o, const struct norm_ranges &ranges, uint32_t *found)
    {
        for (int i = 0; i < ranges.count; i++) {
            found[i] = 0;
            for (size_t thread = 0; thread < threads; thread++) {
                norm_max_operation part = of_range(o, ranges.at[i], thread);
                found[i] = part.max > found[i] ? part.max : found[i];
            }
        }
    }

    static void sum(const norm_operation &o, const struct norm_ranges &ranges, struct norm_sum *found)
    {
        for (int i = 0; i < ranges.count; i++) {
            found[i] = {0, 0};
            for (size_t thread = 0; thread < threads; thread++)
                norm_add(&found[i], of_range(o, ranges.at[i], thread).sum);
        }
    }

    template <typename operation> static operation of_range(operation o, const struct norm_range &range, size_t thread)
    {
        o.values = range.values;
        each(o, {thread, threads}, range.count, is_wide(o.dtype, range.values));
        return o;
    }

    static const void *const *list(const void *const in[], size_t)
    {
        return in;
    }

    static void unlist(const void *const *)
    {
    }
};

void isa_host_matmul(const struct matmul_product *product)
{
    matmul_chains<on_host>(product);
}

void isa_host_mix(const struct adam_step *step)
{
    on_host::run(mix_operation{*step}, step->count, is_wide_step(step), "");
}

const struct isa_kernels isa_host = isa_table<on_host>();
