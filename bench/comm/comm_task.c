// SPDX-License-Identifier: Apache-2.0
// The work of one rank in a repetition: the collective, the library's own collective, or the baseline's copies.
#include "bench/comm/comm_ranks.h"

#include "base/err.h"
#include "bench/comm/mpi_collective.h"
#include "bench/comm/nccl_collective.h"

static int collective(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    bool in_place = of->setting.in_place;
    float *result = comm_rank_result(rank);
    switch (of->setting.operation) {
    case REDUCE_SCATTER:
        return comm_reduce_scatter(rank->comm, rank->send, DTYPE_FP32, result, DTYPE_FP32, of->counts, false);
    case ALL_GATHER:
        return comm_all_gather(rank->comm, in_place ? result + of->offsets[rank->index] : rank->send, result,
                               of->counts, of->offsets, DTYPE_FP32);
    case ALL_REDUCE:
        return comm_all_reduce(rank->comm, rank->send, result, of->setting.count, DTYPE_FP32, COMM_SUM);
    case ALL_TO_ALL:
        return comm_all_to_all(rank->comm, rank->send, of->counts, of->offsets, result, rank->recv_counts,
                               rank->recv_offsets, DTYPE_FP32);
    default:
        return comm_broadcast(rank->comm, result, of->setting.count * sizeof(float), 0);
    }
}

// Runs MPI's own collective, or for buffers on a device NCCL's, always out of place.
static int native(const struct comm_rank *rank)
{
    static const enum comm_operation operations[OPERATION_KINDS] = {COMM_REDUCE_SCATTER, COMM_ALL_GATHER,
                                                                    COMM_ALL_REDUCE, COMM_ALL_TO_ALL, COMM_BROADCAST};
    const struct comm_ranks *of = rank->of;
    const struct comm_call call = {
        .operation = operations[of->setting.operation],
        .send_dtype = DTYPE_FP32,
        .recv_dtype = DTYPE_FP32,
        .send = rank->send,
        .recv = rank->recv,
        .count = of->setting.count,
        .counts = of->counts,
        .offsets = of->offsets,
        .recv_counts = rank->recv_counts,
        .recv_offsets = rank->recv_offsets,
    };
    return rank->stage ? nccl_collective_run(rank->comm, &call) : mpi_collective_run(rank->comm, &call);
}

int comm_rank_run_task(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    for (size_t call = 0; call < of->calls; call++) {
        if (of->task == TASK_COLLECTIVE)
            TRY(collective(rank));
        else if (of->task == TASK_NATIVE)
            TRY(native(rank));
        else if (of->task == TASK_MEET_AND_COPY)
            TRY(comm_rank_meet(rank));
        if (of->task != TASK_COLLECTIVE && of->task != TASK_NATIVE)
            comm_rank_copy_same_bytes(rank);
    }
    comm_rank_copies_end(rank);
    rank->has_native_result = of->task == TASK_NATIVE;
    rank->has_result = of->task == TASK_COLLECTIVE || of->task == TASK_NATIVE;
    return ERR_NONE;
}
