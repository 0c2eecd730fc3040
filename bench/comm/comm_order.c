// SPDX-License-Identifier: Apache-2.0
// The number of elements whose bits differ between the canonical order of a sum and that of MPI or NCCL.
#include "bench/comm/comm_ranks.h"

#include "ref/arithmetic/accelerator.h"
#include "bench/harness/bench.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

// Makes one call on send as it is; its result is not verified.
static int call_task(struct comm_ranks *ranks, enum task task)
{
    struct comm_rank *rank = &ranks->ranks[0];
    ranks->task = task;
    int code = comm_ranks_repeat(ranks);
    rank->has_result = false;
    return code;
}

// Copies both results, of numbers whose sum depends on the order, to host memory.
static int sum_both_ways(struct comm_ranks *ranks, char *canonical, char *native, size_t bytes)
{
    struct comm_rank *rank = &ranks->ranks[0];
    TRY(comm_rank_fill_roughly(rank));
    TRY(call_task(ranks, TASK_COLLECTIVE));
    TRY(bytes_copy(canonical, comm_rank_result(rank), bytes));
    TRY(call_task(ranks, TASK_NATIVE));
    return bytes_copy(native, rank->recv, bytes);
}

int comm_ranks_count_other_bits(struct comm_ranks *ranks, uint64_t *count)
{
    assert(ranks->setting.comm && !ranks->setting.in_place);
    struct comm_rank *rank = &ranks->ranks[0];
    size_t element_bytes = dtype_bytes(ranks->setting.dtype), bytes = comm_rank_result_count(rank) * element_bytes;
    size_t calls = ranks->calls;
    uint64_t differing = 0;
    char *results = bench_alloc(2 * bytes, 1);
    if (!results)
        return err_set(ERR_MEMORY, "no memory for two results of %zu bytes", bytes);
    ranks->calls = 1;
    int code = sum_both_ways(ranks, results, results + bytes, bytes);
    for (size_t i = 0; i < bytes && code == ERR_NONE; i += element_bytes)
        differing += memcmp(results + i, results + bytes + i, element_bytes) != 0;
    bench_free(results, 2 * bytes);
    rank->has_native_result = false;
    ranks->calls = calls;
    if (code == ERR_NONE)
        code = comm_rank_fill(rank);
    return code == ERR_NONE ? comm_ranks_sum(ranks, differing, count) : code;
}
