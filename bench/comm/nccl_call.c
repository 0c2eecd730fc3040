// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/nccl_rows.h"

#include "base/err.h"

#ifdef ZG_HAVE_NCCL
#include "ref/comm/comm_nccl.h"
#include "ref/cuda/cuda_lane.h"

#include <cuda_runtime_api.h>

#include <stdio.h>

// A call in a group that has begun.
struct part {
    struct comm_nccl *nccl;
    const struct comm_nccl_calls *calls;
    const struct nccl_call *call;
    ncclDataType_t type;
    size_t shard, bytes;  // elements, and bytes of them
    cudaStream_t stream;
};

static int send_to(const struct part *p, const char *from, size_t count, int peer)
{
    return comm_nccl_code(p->nccl, p->calls->send(from, count, p->type, peer, p->nccl->nccl, p->stream), "ncclSend");
}

static int receive_from(const struct part *p, char *to, size_t count, int peer)
{
    return comm_nccl_code(p->nccl, p->calls->recv(to, count, p->type, peer, p->nccl->nccl, p->stream), "ncclRecv");
}

// A shard to and from each rank, or only from or only to rank 0.
static int exchange_shards(const struct part *p)
{
    int operation = p->call->operation, rank = p->nccl->comm.rank;
    for (int peer = 0; peer < p->nccl->comm.world; peer++) {
        const char *from = p->call->send + (operation == NCCL_GATHER ? 0 : (size_t)peer * p->bytes);
        char *to = p->call->recv + (operation == NCCL_SCATTER ? 0 : (size_t)peer * p->bytes);
        if (operation == ALL_TO_ALL || (operation == NCCL_GATHER ? peer : rank) == 0)
            TRY(send_to(p, from, p->shard, peer));
        if (operation == ALL_TO_ALL || (operation == NCCL_GATHER ? rank : peer) == 0)
            TRY(receive_from(p, to, p->shard, peer));
    }
    return ERR_NONE;
}

static int send_to_next(const struct part *p)
{
    int rank = p->nccl->comm.rank, world = p->nccl->comm.world;
    TRY(send_to(p, p->call->send, p->call->count, (rank + 1) % world));
    return receive_from(p, p->call->recv, p->call->count, (rank + world - 1) % world);
}

static int name_call(const struct part *p)
{
    const struct nccl_call *c = p->call;
    ncclRedOp_t by = (ncclRedOp_t)c->reduction;
    ncclComm_t nccl = p->nccl->nccl;
    ncclResult_t result;
    switch (c->operation) {
    case REDUCE_SCATTER:
        result = p->calls->reduce_scatter(c->send, c->recv, p->shard, p->type, by, nccl, p->stream);
        return comm_nccl_code(p->nccl, result, "ncclReduceScatter");
    case ALL_REDUCE:
        result = p->calls->all_reduce(c->send, c->recv, c->count, p->type, by, nccl, p->stream);
        return comm_nccl_code(p->nccl, result, "ncclAllReduce");
    case NCCL_REDUCE:
        result = p->calls->reduce(c->send, c->recv, c->count, p->type, by, 0, nccl, p->stream);
        return comm_nccl_code(p->nccl, result, "ncclReduce");
    case ALL_GATHER:
        result = p->calls->all_gather(c->send, c->recv, p->shard, p->type, nccl, p->stream);
        return comm_nccl_code(p->nccl, result, "ncclAllGather");
    case BROADCAST:
        result = p->calls->broadcast(c->send, c->recv, c->count, p->type, 0, nccl, p->stream);
        return comm_nccl_code(p->nccl, result, "ncclBroadcast");
    case NCCL_SEND_RECEIVE:
        return send_to_next(p);
    default:
        return exchange_shards(p);
    }
}

// The group is ended after an error too; otherwise NCCL would add all later calls to it.
int nccl_call_enqueue(struct comm *comm, const void *context)
{
    const struct nccl_call *call = context;
    struct comm_nccl *nccl = (struct comm_nccl *)comm;
    const struct comm_nccl_calls *calls = nccl->options.calls;
    size_t shard = call->count / (size_t)comm->world;
    const struct part part = {
        nccl, calls, call, (ncclDataType_t)call->type, shard, shard * nccl_type_bytes(call->type), calls->stream()};
    TRY(comm_nccl_begin(nccl));
    int code = name_call(&part), ended = comm_nccl_end(nccl);
    return code != ERR_NONE ? code : ended;
}

int nccl_call_run(struct comm *comm, const struct nccl_call *call)
{
    struct comm_nccl *nccl = (struct comm_nccl *)comm;
    return comm_nccl_finish(nccl,
                            nccl->nccl ? nccl_call_enqueue(comm, call) : err_set(ERR_PEER, "NCCL has failed already"));
}

const char *nccl_call_absent(const struct comm *comm, int operation, int type)
{
    enum { FIRST_WITH_FP8 = 224, LEAST_CAPABILITY = 9 };
    int major = 0, minor = 0, capability = LEAST_CAPABILITY;
    if (type < NCCL_E4M3)
        return NULL;
    if (sscanf(((const struct comm_nccl *)comm)->library, "NCCL %d.%d", &major, &minor) == 2 &&
        100 * major + minor < FIRST_WITH_FP8)
        return "NCCL before 2.24 has no such type";
    if (nccl_reduces(operation))
        (void)cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, cuda_lane_device());
    return capability < LEAST_CAPABILITY ? "only devices of 9.0 and later reduce it" : NULL;
}
#else
int nccl_call_enqueue(struct comm *comm, const void *context)
{
    (void)comm, (void)context;
    return err_set(ERR_USAGE, "this binary was built without NCCL");
}

int nccl_call_run(struct comm *comm, const struct nccl_call *call)
{
    return nccl_call_enqueue(comm, call);
}

const char *nccl_call_absent(const struct comm *comm, int operation, int type)
{
    (void)comm, (void)operation, (void)type;
    return "this binary was built without NCCL";
}
#endif
