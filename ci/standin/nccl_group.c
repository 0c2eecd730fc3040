// SPDX-License-Identifier: Apache-2.0
// Groups and the operations in them.
#include "ci/standin/nccl.h"

#include <stdlib.h>

static const char *const kind_names[] = {"ncclSend",   "ncclRecv",          "ncclBroadcast", "ncclAllGather",
                                         "ncclReduce", "ncclReduceScatter", "ncclAllReduce"};

// Of the calling thread: its groups that are open, and the operations in them.
static _Thread_local int depth;
static _Thread_local struct group *open_group;

const char *nccl_kind_name(enum kind kind)
{
    return kind_names[kind];
}

size_t nccl_type_bytes(ncclDataType_t type)
{
    // By the numbers of nccl.h: integers, fp16, fp32, fp64, bf16, and two of 8 bits.
    static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    if ((size_t)type >= sizeof bytes)
        standin_die("NCCL: elements of type %d", (int)type);
    return bytes[type];
}

ncclResult_t ncclGroupStart(void)
{
    if (depth++ == 0)
        open_group = NULL;
    return ncclSuccess;
}

static bool overlap(const char *one, size_t bytes, const char *other, size_t other_bytes)
{
    return bytes > 0 && other_bytes > 0 && one < other + other_bytes && other < one + bytes;
}

// Returns whether an operation's own memory is as NCCL's operations in place have it.
static bool is_in_place(const struct operation *operation, int rank)
{
    enum kind kind = operation->call.kind;
    size_t place = (size_t)rank;
    return operation->from == operation->to + (kind == ALL_GATHER ? place * operation->from_bytes : 0) ||
           (kind == REDUCE_SCATTER && operation->to == operation->from + place * operation->to_bytes);
}

static void expect_no_overlap(const struct group *group)
{
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < group->count; k++) {
            const struct operation *one = &group->operations[i], *other = &group->operations[k];
            if ((k != i && overlap(one->to, one->to_bytes, other->to, other->to_bytes)) ||
                (overlap(one->to, one->to_bytes, other->from, other->from_bytes) &&
                 !(k == i && is_in_place(one, group->comm->rank))))
                standin_die("NCCL: %s writes memory of %s in its group", nccl_kind_name(one->call.kind),
                            nccl_kind_name(other->call.kind));
        }
}

ncclResult_t ncclGroupEnd(void)
{
    struct group *group = open_group;
    if (depth == 0)
        standin_die("NCCL: ncclGroupEnd outside a group");
    if (--depth > 0 || !group)
        return ncclSuccess;
    open_group = NULL;
    nccl_expect_state(group->comm, "ncclGroupEnd", 1u << READY);
    if (nccl_count_call(group->comm, &group->comm->hangs) != ncclSuccess) {
        ncclResult_t error = group->comm->error;
        free(group);
        return error;
    }
    expect_no_overlap(group);
    group->comm->ended = group;
    group->comm->state = ENQUEUING;
    group->comm->poll_count = 0;
    return ncclInProgress;
}

static void expect_memory(const char *call, const char *memory, size_t bytes)
{
    if (bytes > 0 && standin_place_of(memory, bytes) != STANDIN_ON_DEVICE)
        standin_die("NCCL: %s of %zu bytes of memory that are not all the device's", call, bytes);
}

static void expect_stream(const char *call, cudaStream_t stream, const struct ncclComm *comm)
{
    if (!stream || !standin_stream_is_open(stream))
        standin_die("NCCL: %s on a stream that was destroyed", call);
    if (standin_stream_device(stream) != comm->device || standin_device() != comm->device)
        standin_die("NCCL: %s on another device than its communicator's", call);
    if (open_group && (open_group->stream != stream || open_group->comm != comm))
        standin_die("NCCL: %s on another stream or communicator than its group", call);
}

static ncclResult_t add(struct ncclComm *comm, cudaStream_t stream, struct operation operation)
{
    const char *call = nccl_kind_name(operation.call.kind);
    nccl_expect_state(comm, call, 1u << READY);
    if (depth == 0)
        standin_die("NCCL: %s outside a group", call);
    expect_memory(call, operation.from, operation.from_bytes);
    expect_memory(call, operation.to, operation.to_bytes);
    expect_stream(call, stream, comm);
    if ((unsigned)operation.call.by > ncclAvg)
        standin_die("NCCL: %s by operation %d", call, (int)operation.call.by);
    if (operation.call.peer >= comm->world || (open_group && open_group->count == OPERATIONS_MAX))
        standin_die("NCCL: %s with rank %d of %d, or one of too many", call, operation.call.peer, comm->world);
    if (nccl_count_call(comm, &comm->stalls) != ncclSuccess)
        return comm->error;
    open_group = open_group ? open_group : calloc(1, sizeof *open_group);
    if (!open_group)
        return ncclSystemError;
    open_group->comm = comm;
    open_group->stream = stream;
    operation.loses = comm->loses;
    open_group->operations[open_group->count++] = operation;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    size_t bytes = count * nccl_type_bytes(type);
    return add(comm, stream, (struct operation){{SEND, type, count, peer, ncclSum}, .from = from, .from_bytes = bytes});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * nccl_type_bytes(type);
    return add(comm, stream, (struct operation){{RECEIVE, type, count, peer, ncclSum}, .to = to, .to_bytes = bytes});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    size_t bytes = count * nccl_type_bytes(type), sent = comm->rank == root ? bytes : 0;
    return add(comm, stream,
               (struct operation){{BROADCAST, type, count, root, ncclSum}, from, to, sent, bytes, 0, false});
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    size_t bytes = count * nccl_type_bytes(type), world = (size_t)comm->world;
    return add(comm, stream,
               (struct operation){{ALL_GATHER, type, count, -1, ncclSum}, from, to, bytes, world * bytes, 0, false});
}

ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * nccl_type_bytes(type), received = comm->rank == root ? bytes : 0;
    return add(comm, stream,
               (struct operation){{REDUCE, type, count, root, operation}, from, to, bytes, received, 0, false});
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * nccl_type_bytes(type), world = (size_t)comm->world;
    return add(
        comm, stream,
        (struct operation){{REDUCE_SCATTER, type, count, -1, operation}, from, to, world * bytes, bytes, 0, false});
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * nccl_type_bytes(type);
    return add(comm, stream,
               (struct operation){{ALL_REDUCE, type, count, -1, operation}, from, to, bytes, bytes, 0, false});
}
