// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/native_collective.h"

#include "base/err.h"

#ifdef ZG_HAVE_NCCL
#include "ref/arithmetic/accelerator.h"
#include "ref/comm/comm_nccl.h"

#include <string.h>

static ncclDataType_t type_of(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? ncclFloat32 : dtype == DTYPE_BF16 ? ncclBfloat16 : ncclFloat16;
}

static bool has_equal_shards(const struct comm_call *call, int world)
{
    for (int rank = 0; rank < world; rank++)
        if (call->counts[rank] != call->counts[0] || call->offsets[rank] != (size_t)rank * call->counts[0])
            return false;
    return true;
}

// NCCL's own sums: ncclReduceScatter for equal consecutive shards, one ncclReduce to each rank for others.
static int name_sums(struct comm_nccl *nccl, const struct comm_call *call)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    ncclDataType_t type = type_of(call->dtype);
    cudaStream_t stream = calls->stream();
    if (call->operation == COMM_ALL_REDUCE)
        return comm_nccl_code(nccl,
                              calls->all_reduce(call->send, call->recv, call->count, type, ncclSum, nccl->nccl, stream),
                              "ncclAllReduce");
    if (has_equal_shards(call, nccl->comm.world))
        return comm_nccl_code(
            nccl, calls->reduce_scatter(call->send, call->recv, call->counts[0], type, ncclSum, nccl->nccl, stream),
            "ncclReduceScatter");
    for (int rank = 0; rank < nccl->comm.world; rank++) {
        const char *shard = (const char *)call->send + call->offsets[rank] * dtype_bytes(call->dtype);
        if (call->counts[rank] > 0)
            TRY(comm_nccl_code(
                nccl, calls->reduce(shard, call->recv, call->counts[rank], type, ncclSum, rank, nccl->nccl, stream),
                "ncclReduce"));
    }
    return ERR_NONE;
}

// ncclAllGather needs equal, contiguous shards; others become a broadcast from each rank.
static int name_gather(struct comm_nccl *nccl, const struct comm_call *call)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    size_t element_bytes = dtype_bytes(call->dtype);
    cudaStream_t stream = calls->stream();
    if (has_equal_shards(call, nccl->comm.world))
        return comm_nccl_code(
            nccl,
            calls->all_gather(call->send, call->recv, call->counts[0] * element_bytes, ncclInt8, nccl->nccl, stream),
            "ncclAllGather");
    for (int rank = 0; rank < nccl->comm.world; rank++) {
        char *shard = (char *)call->recv + call->offsets[rank] * element_bytes;
        const void *from = rank == nccl->comm.rank ? call->send : shard;
        if (call->counts[rank] > 0)
            TRY(comm_nccl_code(
                nccl,
                calls->broadcast(from, shard, call->counts[rank] * element_bytes, ncclInt8, rank, nccl->nccl, stream),
                "ncclBroadcast"));
    }
    return ERR_NONE;
}

// The all-to-all of nccl-tests: a send to and a receive from every rank, this one included.
static int name_pairs(struct comm_nccl *nccl, const struct comm_call *call)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    size_t element_bytes = dtype_bytes(call->dtype);
    cudaStream_t stream = calls->stream();
    for (int peer = 0; peer < nccl->comm.world; peer++) {
        const char *from = (const char *)call->send + call->offsets[peer] * element_bytes;
        char *to = (char *)call->recv + call->recv_offsets[peer] * element_bytes;
        if (call->counts[peer] > 0)
            TRY(comm_nccl_code(
                nccl, calls->send(from, call->counts[peer] * element_bytes, ncclInt8, peer, nccl->nccl, stream),
                "ncclSend"));
        if (call->recv_counts[peer] > 0)
            TRY(comm_nccl_code(
                nccl, calls->recv(to, call->recv_counts[peer] * element_bytes, ncclInt8, peer, nccl->nccl, stream),
                "ncclRecv"));
    }
    return ERR_NONE;
}

static int name_collective(struct comm_nccl *nccl, const struct comm_call *call)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    switch (call->operation) {
    case COMM_ALL_TO_ALL:
        return name_pairs(nccl, call);
    case COMM_ALL_GATHER:
        return name_gather(nccl, call);
    case COMM_BROADCAST:
        return comm_nccl_code(nccl,
                              calls->broadcast(call->recv, call->recv, call->count * dtype_bytes(call->dtype), ncclInt8,
                                               call->root, nccl->nccl, calls->stream()),
                              "ncclBroadcast");
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_REDUCE:
        return name_sums(nccl, call);
    case COMM_BARRIER:
        break;
    }
    return ERR_NONE;
}

// The calls are one group. The group is ended after an error too; otherwise NCCL would add all later calls to it.
int nccl_collective_enqueue(struct comm *comm, const void *call)
{
    struct comm_nccl *nccl = (struct comm_nccl *)comm;
    TRY(comm_nccl_begin(nccl));
    int rc = name_collective(nccl, call);
    int ended = comm_nccl_end(nccl);
    return rc != ERR_NONE ? rc : ended;
}

static bool is_nccl(const struct comm *comm)
{
    return strcmp(comm->ops->name, "nccl") == 0;
}

int nccl_collective_run(struct comm *comm, const struct comm_call *call)
{
    if (!is_nccl(comm))
        return err_set(ERR_USAGE, "NCCL's own collectives need ranks over NCCL, not over %s", comm->ops->name);
    struct comm_nccl *nccl = (struct comm_nccl *)comm;
    int rc = nccl->nccl ? nccl_collective_enqueue(comm, call) : err_set(ERR_PEER, "NCCL has failed already");
    return comm_nccl_finish(nccl, rc);
}

const char *nccl_collective_library(const struct comm *comm)
{
    return is_nccl(comm) ? ((const struct comm_nccl *)comm)->library : NULL;
}
#else
int nccl_collective_enqueue(struct comm *comm, const void *call)
{
    (void)comm, (void)call;
    return err_set(ERR_USAGE, "this binary was built without NCCL");
}

int nccl_collective_run(struct comm *comm, const struct comm_call *call)
{
    return nccl_collective_enqueue(comm, call);
}

const char *nccl_collective_library(const struct comm *comm)
{
    (void)comm;
    return NULL;
}
#endif
