// SPDX-License-Identifier: Apache-2.0
// Sums by NCCL, in an order of its choice, each compared with the canonical sum of the same values.
#include "ref/comm/comm_nccl.h"

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/comm/comm_native.h"

#include <stdlib.h>

static ncclDataType_t type_of(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? ncclFloat32 : dtype == DTYPE_BF16 ? ncclBfloat16 : ncclFloat16;
}

static size_t part(size_t count, enum dtype dtype)
{
    return (count * dtype_bytes(dtype) + 255) / 256 * 256;
}

bool comm_nccl_has_equal_shards(const struct comm_call *call, int world)
{
    for (int rank = 0; rank < world; rank++)
        if (call->counts[rank] != call->counts[0] || call->offsets[rank] != (size_t)rank * call->counts[0])
            return false;
    return true;
}

int comm_nccl_name_sums(struct comm_nccl *nccl, const struct comm_call *call, void *sum)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    ncclDataType_t type = type_of(call->send_dtype);
    cudaStream_t stream = calls->stream();
    if (call->operation == COMM_ALL_REDUCE)
        return comm_nccl_code(nccl, calls->all_reduce(call->send, sum, call->count, type, ncclSum, nccl->nccl, stream),
                              "ncclAllReduce");
    if (comm_nccl_has_equal_shards(call, nccl->comm.world))
        return comm_nccl_code(
            nccl, calls->reduce_scatter(call->send, sum, call->counts[0], type, ncclSum, nccl->nccl, stream),
            "ncclReduceScatter");
    for (int rank = 0; rank < nccl->comm.world; rank++) {
        const char *shard = (const char *)call->send + call->offsets[rank] * dtype_bytes(call->send_dtype);
        if (call->counts[rank] > 0)
            TRY(comm_nccl_code(nccl,
                               calls->reduce(shard, sum, call->counts[rank], type, ncclSum, rank, nccl->nccl, stream),
                               "ncclReduce"));
    }
    return ERR_NONE;
}

// Ends the group even if a call fails, or NCCL would add all later calls of this thread to it.
static int run_group(struct comm_nccl *nccl, const struct comm_call *call, void *sum)
{
    TRY(comm_nccl_begin(nccl));
    int rc = comm_nccl_name_sums(nccl, call, sum);
    int ended = comm_nccl_end(nccl);
    return rc != ERR_NONE ? rc : ended;
}

static int make_room(struct comm_nccl *nccl, size_t bytes)
{
    if (nccl->native_bytes >= bytes)
        return ERR_NONE;
    comm_nccl_release(nccl, nccl->native);
    nccl->native = NULL;
    nccl->native_bytes = 0;
    TRY(comm_nccl_allocate(nccl, bytes, &nccl->native));
    nccl->native_bytes = bytes;
    return ERR_NONE;
}

// Compares the bits on the host.
static int compare(struct comm_nccl *nccl, const struct comm_call *call, const void *canonical, size_t offset,
                   size_t own)
{
    size_t bytes = own * dtype_bytes(call->recv_dtype);
    char *here = malloc(2 * bytes + 1);
    int rc = here ? bytes_copy(here, canonical, bytes) : err_set(ERR_MEMORY, "out of memory for %zu bytes", 2 * bytes);
    if (rc == ERR_NONE)
        rc = bytes_copy(here + bytes, call->recv, bytes);
    if (rc == ERR_NONE)
        comm_native_compare(&nccl->comm, call->recv_dtype, here, here + bytes, offset, own);
    free(here);
    return rc;
}

int comm_nccl_native(struct comm_nccl *nccl, const struct comm_call *call)
{
    bool scatter = call->operation == COMM_REDUCE_SCATTER;
    size_t own = scatter ? call->counts[nccl->comm.rank] : call->count;
    size_t sum_bytes = part(own, call->send_dtype), result_bytes = part(own, call->recv_dtype);
    TRY(make_room(nccl, sum_bytes + result_bytes + 256));
    char *sum = nccl->native, *canonical = sum + sum_bytes;
    if (call->add && own > 0)
        TRY(bytes_copy(canonical, call->recv, own * dtype_bytes(call->recv_dtype)));
    struct comm_call beside = *call;
    beside.recv = canonical;
    TRY(comm_nccl_move(nccl, &beside));
    TRY(run_group(nccl, call, sum));
    const void *in[] = {sum};
    if (own > 0)
        dtype_fold(call->send_dtype, in, 1, call->recv_dtype, call->recv, own, call->add);
    TRY(comm_nccl_wait(nccl));
    return compare(nccl, call, canonical, scatter ? call->offsets[nccl->comm.rank] : 0, own);
}
