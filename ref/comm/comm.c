// SPDX-License-Identifier: Apache-2.0
// The part of a collective that all backends share: checks and signs each call before the backend runs it, and counts
// it afterwards. A call that fails its check fails on every rank, because the other ranks wait for it.
#include "ref/comm/comm.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/comm/comm_internal.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

int comm_rank(const struct comm *comm)
{
    assert(comm && comm->rank >= 0 && comm->rank < comm->world);
    return comm->rank;
}

int comm_world(const struct comm *comm)
{
    return comm->world;
}

int comm_stride(const struct comm *comm)
{
    return comm->stride > 0 ? comm->stride : 1;
}

void comm_count_in(struct comm *comm, struct ledger *ledger)
{
    comm->ledger = ledger;
}

struct ledger *comm_ledger(const struct comm *comm)
{
    return comm->ledger;
}

void comm_count_as(struct comm *comm, enum ledger_purpose purpose)
{
    comm->purpose = purpose;
}

void comm_count_for(struct comm *comm, enum ledger_group group)
{
    comm->counted_group = group;
}

void comm_count(const struct comm *comm, enum ledger_purpose purpose, enum ledger_operation operation, uint64_t count,
                uint64_t bytes)
{
    ledger_send(comm->ledger, comm->counted_group, purpose, operation, count, bytes);
}

int comm_set_group(struct comm *comm, int ranks)
{
    if (ranks < 0 || (ranks > 0 && comm->world % ranks != 0))
        return err_set(ERR_USAGE, "groups of %d ranks do not divide a world of %d", ranks, comm->world);
    comm->group = ranks > 1 && ranks < comm->world ? ranks : 0;
    return ERR_NONE;
}

static int run(struct comm *comm, struct comm_call *call)
{
    assert(comm && comm->rank >= 0 && comm->rank < comm->world);
    assert(call->count == 0 || call->operation == COMM_ALL_GATHER || call->operation == COMM_BROADCAST || call->send);
    call->group = call->reduction == COMM_SUM ? comm->group : 0;
    comm_call_sign(call, ++comm->sequence, comm->world);
    return comm->ops->run(comm, call);
}

static int refuse(struct comm *comm, enum comm_operation operation, const char *why)
{
    int rc = err_set(ERR_INTERNAL, "%s: %s", comm_operation_name(operation), why);
    comm->ops->abort(comm, err_message());
    return rc;
}

static void count_sent(struct comm *comm, enum ledger_operation operation, size_t elements, enum dtype dtype)
{
    comm_count(comm, comm->purpose, operation, 1, (uint64_t)elements * dtype_bytes(dtype));
}

static size_t sum(const size_t counts[], int world)
{
    size_t total = 0;
    for (int rank = 0; rank < world; rank++)
        total += counts[rank];
    return total;
}

static bool overlaps(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

// Returns whether a block overlaps any shard of the full buffer.
static bool overlaps_shards(uintptr_t block, size_t block_bytes, const void *whole, const size_t counts[],
                            const size_t offsets[], enum dtype dtype, int world)
{
    size_t element_bytes = dtype_bytes(dtype);
    for (int rank = 0; rank < world; rank++) {
        uintptr_t shard = (uintptr_t)whole + offsets[rank] * element_bytes;
        if (overlaps(block, block_bytes, shard, counts[rank] * element_bytes))
            return true;
    }
    return false;
}

int comm_all_to_all(struct comm *comm, const void *send, const size_t send_counts[], const size_t send_offsets[],
                    void *recv, const size_t recv_counts[], const size_t recv_offsets[], enum dtype dtype)
{
    for (int rank = 0; rank < comm->world; rank++) {
        uintptr_t to = (uintptr_t)recv + recv_offsets[rank] * dtype_bytes(dtype);
        if (overlaps_shards(to, recv_counts[rank] * dtype_bytes(dtype), send, send_counts, send_offsets, dtype,
                            comm->world))
            return refuse(comm, COMM_ALL_TO_ALL, "send and recv overlap");
    }
    size_t count = sum(send_counts, comm->world);
    TRY(run(comm, &(struct comm_call){.operation = COMM_ALL_TO_ALL,
                                      .dtype = dtype,
                                      .send = send,
                                      .recv = recv,
                                      .count = count,
                                      .counts = send_counts,
                                      .offsets = send_offsets,
                                      .recv_counts = recv_counts,
                                      .recv_offsets = recv_offsets}));
    count_sent(comm, OPERATION_ALL_TO_ALL, count - send_counts[comm->rank], dtype);
    return ERR_NONE;
}

int comm_reduce_scatter(struct comm *comm, const void *send, void *recv, const size_t counts[], const size_t offsets[],
                        enum dtype dtype)
{
    size_t own = counts[comm->rank], count = sum(counts, comm->world);
    bool in_place = own > 0 && (uintptr_t)recv == (uintptr_t)send + offsets[comm->rank] * dtype_bytes(dtype);
    if (dtype == DTYPE_BYTE)
        return refuse(comm, COMM_REDUCE_SCATTER, "bytes have no sum");
    if (!in_place &&
        overlaps_shards((uintptr_t)recv, own * dtype_bytes(dtype), send, counts, offsets, dtype, comm->world))
        return refuse(comm, COMM_REDUCE_SCATTER, "recv overlaps send, but is not this rank's shard of it");
    TRY(run(comm, &(struct comm_call){.operation = COMM_REDUCE_SCATTER,
                                      .dtype = dtype,
                                      .send = send,
                                      .recv = recv,
                                      .count = count,
                                      .counts = counts,
                                      .offsets = offsets}));
    count_sent(comm, OPERATION_REDUCE_SCATTER, count - own, dtype);
    return ERR_NONE;
}

int comm_all_gather(struct comm *comm, const void *send, void *recv, const size_t counts[], const size_t offsets[],
                    enum dtype dtype)
{
    size_t own = counts[comm->rank];
    uintptr_t shard = (uintptr_t)recv + offsets[comm->rank] * dtype_bytes(dtype);
    if ((uintptr_t)send != shard &&
        overlaps_shards((uintptr_t)send, own * dtype_bytes(dtype), recv, counts, offsets, dtype, comm->world))
        return refuse(comm, COMM_ALL_GATHER, "send overlaps recv, but is not this rank's shard of it");
    TRY(run(comm, &(struct comm_call){.operation = COMM_ALL_GATHER,
                                      .dtype = dtype,
                                      .send = send,
                                      .recv = recv,
                                      .count = sum(counts, comm->world),
                                      .counts = counts,
                                      .offsets = offsets}));
    count_sent(comm, OPERATION_ALL_GATHER, (size_t)(comm->world - 1) * own, dtype);
    return ERR_NONE;
}

int comm_all_gather_equal(struct comm *comm, const void *own, void *all, size_t bytes)
{
    size_t counts[comm->world], offsets[comm->world];
    for (int rank = 0; rank < comm->world; rank++) {
        counts[rank] = bytes;
        offsets[rank] = (size_t)rank * bytes;
    }
    return comm_all_gather(comm, own, all, counts, offsets, DTYPE_BYTE);
}

int comm_all_reduce(struct comm *comm, const void *send, void *recv, size_t count, enum dtype dtype,
                    enum comm_reduction reduction)
{
    if (dtype == DTYPE_BYTE && reduction == COMM_SUM)
        return refuse(comm, COMM_ALL_REDUCE, "bytes have no sum");
    if (reduction == COMM_MAX && (accelerator_of(send) || accelerator_of(recv)))
        return refuse(comm, COMM_ALL_REDUCE, "a maximum needs buffers in host memory");
    if (send != recv &&
        overlaps((uintptr_t)send, count * dtype_bytes(dtype), (uintptr_t)recv, count * dtype_bytes(dtype)))
        return refuse(comm, COMM_ALL_REDUCE, "send and recv overlap, but are not the same");
    TRY(run(comm, &(struct comm_call){.operation = COMM_ALL_REDUCE,
                                      .dtype = dtype,
                                      .reduction = reduction,
                                      .send = send,
                                      .recv = recv,
                                      .count = count}));
    size_t offset, own = comm_shard(count, comm->world, comm->rank, &offset);
    count_sent(comm, OPERATION_ALL_REDUCE, count - own + (size_t)(comm->world - 1) * own, dtype);
    return ERR_NONE;
}

int comm_broadcast(struct comm *comm, void *buffer, size_t bytes, int root)
{
    if (root < 0 || root >= comm->world)
        return refuse(comm, COMM_BROADCAST, "the root is not a rank of this world");
    TRY(run(comm, &(struct comm_call){.operation = COMM_BROADCAST,
                                      .dtype = DTYPE_BYTE,
                                      .root = root,
                                      .send = buffer,
                                      .recv = buffer,
                                      .count = bytes}));
    count_sent(comm, OPERATION_BROADCAST, comm->rank == root ? (size_t)(comm->world - 1) * bytes : 0, DTYPE_BYTE);
    return ERR_NONE;
}

// True if every member names the same part: one of that size, which begins with the same rank.
static int agree_on_part(struct comm *comm, const int members[], int count)
{
    const int own[2] = {members[0], count};
    int all[comm->world][2];
    TRY(comm_all_gather_equal(comm, own, all, sizeof own));
    for (int i = 0; i < count; i++)
        if (memcmp(all[members[i]], own, sizeof own) != 0)
            return err_set(ERR_INTERNAL, "rank %d names a part of %d ranks from %d on, rank %d one of %d from %d on",
                           comm->rank, count, members[0], members[i], all[members[i]][1], all[members[i]][0]);
    return ERR_NONE;
}

int comm_split(struct comm *comm, const int members[], int count, struct comm **out)
{
    struct comm_part part = {.first = members[0], .rank = -1, .world = count, .members = members};
    struct ledger *ledger = comm->ledger;
    for (int i = 0; i < count; i++) {
        assert(members[i] >= 0 && members[i] < comm->world && (i == 0 || members[i] > members[i - 1]));
        part.rank = members[i] == comm->rank ? i : part.rank;
    }
    assert(part.rank >= 0);
    *out = NULL;
    comm->ledger = NULL;
    int code = agree_on_part(comm, members, count);
    if (code == ERR_NONE)
        code = comm->ops->split(comm, &part, out);
    comm->ledger = ledger;
    if (code == ERR_NONE)
        (*out)->stride = comm_stride(comm) * (count > 1 ? members[1] - members[0] : 1);
    return code;
}

int comm_barrier(struct comm *comm)
{
    return run(comm, &(struct comm_call){.operation = COMM_BARRIER});
}

void comm_abort(struct comm *comm, const char *message)
{
    comm->ops->abort(comm, message);
}

void comm_close(struct comm *comm)
{
    if (comm)
        comm->ops->close(comm);
}
