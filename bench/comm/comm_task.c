// SPDX-License-Identifier: Apache-2.0
// The work of one rank in a repetition: the collective, the library's own collective, or the baseline's copies.
#include "bench/comm/comm_ranks.h"

#include "base/err.h"
#include "bench/comm/native_collective.h"
#include "base/resources.h"

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

void comm_cores_open(int world, struct comm_cores *out)
{
    *out = (struct comm_cores){0};
    if (world > resources_processor_count() || resources_topology(&out->topology) != ERR_NONE)
        return;
    out->allowed = hwloc_bitmap_alloc();
    if (!out->allowed || hwloc_get_cpubind(out->topology, out->allowed, HWLOC_CPUBIND_THREAD) != 0 ||
        !resources_core(out->topology, out->allowed, world - 1))
        comm_cores_close(out);
}

void comm_cores_bind(const struct comm_cores *cores, int rank)
{
    hwloc_obj_t core = cores->topology ? resources_core(cores->topology, cores->allowed, rank) : NULL;
    hwloc_cpuset_t set = core ? hwloc_bitmap_dup(core->cpuset) : NULL;
    if (!set)
        return;
    hwloc_bitmap_and(set, set, cores->allowed);
    hwloc_set_cpubind(cores->topology, set, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(set);
}

void comm_cores_close(struct comm_cores *cores)
{
    if (!cores->topology)
        return;
    if (cores->allowed && !hwloc_bitmap_iszero(cores->allowed))
        hwloc_set_cpubind(cores->topology, cores->allowed, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(cores->allowed);
    hwloc_topology_destroy(cores->topology);
    *cores = (struct comm_cores){0};
}
