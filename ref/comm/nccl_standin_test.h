// SPDX-License-Identifier: Apache-2.0
// A stand-in for NCCL. It records the calls of each rank, matches sends with receives when all ranks have ended their
// groups, and moves the bytes between simulated GPUs (shadow_test.h).
#pragma once

#include "ref/comm/comm_nccl.h"
#include "ref/comm/comm_test.h"
#include "ref/arithmetic/shadow_test.h"

#include <stdatomic.h>

enum { CALLS_MAX = 64 };

enum kind { KIND_SEND, KIND_RECV, KIND_BROADCAST, KIND_ALL_GATHER, KIND_REDUCE, KIND_REDUCE_SCATTER, KIND_ALL_REDUCE };

struct recorded {
    enum kind kind;
    int peer;  // or the root
    const void *from;
    void *to;
    size_t count;
};

// The target of ncclComm_t.
struct member {
    int rank;
    struct recorded calls[CALLS_MAX];
    int call_count, groups, aborts, destroys;
};

// How the stand-in behaves, and the ranks in it.
static struct {
    pthread_barrier_t meeting;
    int world;
    struct member members[RANKS_MAX];
    atomic_int mismatches;
    bool takes_own;    // a rank may send to itself
    bool hangs;        // nothing that is enqueued ever ends, until it is aborted
    int failing_rank;  // whose NCCL reports an error; -1: none
} standin;

static _Thread_local struct member *me;

static const char *standin_text(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote error" : "error";
}

static ncclResult_t standin_version(int *out)
{
    *out = 21507;
    return ncclSuccess;
}

static ncclResult_t standin_unique_id(ncclUniqueId *out)
{
    memset(out, 7, sizeof *out);
    return ncclSuccess;
}

static ncclResult_t standin_init(ncclComm_t *out, int world, ncclUniqueId id, int rank)
{
    me = &standin.members[rank];
    *me = (struct member){.rank = rank};
    *out = (ncclComm_t)(void *)me;
    return world == standin.world && id.internal[0] == 7 ? ncclInProgress : ncclInvalidArgument;
}

static ncclResult_t standin_async_error(ncclComm_t comm, ncclResult_t *out)
{
    struct member *member = (struct member *)(void *)comm;
    bool waits = standin.hangs && member->groups > 0;
    *out = waits ? ncclInProgress : ncclSuccess;
    if (member->groups > 0 && member->rank == standin.failing_rank)
        *out = ncclRemoteError;
    return ncclSuccess;
}

static ncclResult_t standin_abort(ncclComm_t comm)
{
    ((struct member *)(void *)comm)->aborts++;
    return ncclSuccess;
}

static ncclResult_t standin_finalize(ncclComm_t comm)
{
    (void)comm;
    return ncclInProgress;
}

static ncclResult_t standin_destroy(ncclComm_t comm)
{
    ((struct member *)(void *)comm)->destroys++;
    return ncclSuccess;
}

static ncclResult_t standin_group_start(void)
{
    me->call_count = 0;
    return ncclSuccess;
}

static ncclResult_t record(enum kind kind, int peer, const void *from, void *to, size_t count, ncclComm_t comm)
{
    if ((struct member *)(void *)comm != me || me->call_count == CALLS_MAX)
        return ncclInvalidUsage;
    me->calls[me->call_count++] = (struct recorded){kind, peer, from, to, count};
    return ncclSuccess;
}

static ncclResult_t standin_send(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                 cudaStream_t stream)
{
    (void)stream;
    return type == ncclInt8 ? record(KIND_SEND, peer, from, NULL, count, comm) : ncclInvalidArgument;
}

static ncclResult_t standin_recv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                 cudaStream_t stream)
{
    (void)stream;
    return type == ncclInt8 ? record(KIND_RECV, peer, NULL, to, count, comm) : ncclInvalidArgument;
}

static ncclResult_t standin_broadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, cudaStream_t stream)
{
    (void)stream;
    return type == ncclInt8 ? record(KIND_BROADCAST, root, from, to, count, comm) : ncclInvalidArgument;
}

static ncclResult_t standin_all_gather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                                       cudaStream_t stream)
{
    (void)stream;
    return type == ncclInt8 ? record(KIND_ALL_GATHER, 0, from, to, count, comm) : ncclInvalidArgument;
}

// The sums that the stand-in makes itself are of fp32.
static bool is_sum(ncclDataType_t type, ncclRedOp_t operation)
{
    return type == ncclFloat32 && operation == ncclSum;
}

static ncclResult_t standin_reduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                                   int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)stream;
    return is_sum(type, operation) ? record(KIND_REDUCE, root, from, to, count, comm) : ncclInvalidArgument;
}

static ncclResult_t standin_reduce_scatter(const void *from, void *to, size_t count, ncclDataType_t type,
                                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    (void)stream;
    return is_sum(type, operation) ? record(KIND_REDUCE_SCATTER, 0, from, to, count, comm) : ncclInvalidArgument;
}

static ncclResult_t standin_all_reduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                       ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    (void)stream;
    return is_sum(type, operation) ? record(KIND_ALL_REDUCE, 0, from, to, count, comm) : ncclInvalidArgument;
}

// The k-th call of that kind with that peer; null: there are not as many.
static const struct recorded *nth(const struct member *member, enum kind kind, int peer, int k)
{
    for (int i = 0; i < member->call_count; i++)
        if (member->calls[i].kind == kind && member->calls[i].peer == peer && k-- == 0)
            return &member->calls[i];
    return NULL;
}

static void move_pairs(void)
{
    for (int peer = 0; peer < standin.world; peer++)
        for (int k = 0;; k++) {
            const struct recorded *send = nth(&standin.members[peer], KIND_SEND, me->rank, k);
            const struct recorded *recv = nth(me, KIND_RECV, peer, k);
            if (!send && !recv)
                break;
            if (!send || !recv || send->count != recv->count || (peer == me->rank && !standin.takes_own)) {
                atomic_fetch_add(&standin.mismatches, 1);
                break;
            }
            shadow_copy(recv->to, send->from, send->count);
        }
}

// From the highest rank down: not the canonical order.
static void sum_down(const struct recorded *call, int index, size_t offset)
{
    float *sum = calloc(call->count, sizeof *sum), *term = calloc(call->count, sizeof *term);
    for (int rank = standin.world - 1; rank >= 0; rank--) {
        shadow_copy(term, (const float *)standin.members[rank].calls[index].from + offset, call->count * sizeof *term);
        for (size_t i = 0; i < call->count; i++)
            sum[i] = rank == standin.world - 1 ? term[i] : sum[i] + term[i];
    }
    shadow_copy(call->to, sum, call->count * sizeof *sum);
    free(sum);
    free(term);
}

static ncclResult_t standin_group_end(void)
{
    me->groups++;
    if (standin.hangs || standin.failing_rank >= 0)
        return ncclInProgress;
    pthread_barrier_wait(&standin.meeting);
    move_pairs();
    for (int i = 0; i < me->call_count; i++) {
        const struct recorded *call = &me->calls[i];
        if (call->kind == KIND_BROADCAST && call->to != standin.members[call->peer].calls[i].from)
            shadow_copy(call->to, standin.members[call->peer].calls[i].from, call->count);
        for (int peer = 0; peer < standin.world && call->kind == KIND_ALL_GATHER; peer++)
            shadow_copy((char *)call->to + (size_t)peer * call->count, standin.members[peer].calls[i].from,
                        call->count);
        if (call->kind == KIND_ALL_REDUCE || (call->kind == KIND_REDUCE && call->peer == me->rank))
            sum_down(call, i, 0);
        if (call->kind == KIND_REDUCE_SCATTER)
            sum_down(call, i, (size_t)me->rank * call->count);
    }
    pthread_barrier_wait(&standin.meeting);
    return ncclInProgress;
}

static cudaStream_t standin_stream(void)
{
    return NULL;
}

static int standin_is_done(cudaStream_t stream, bool *out)
{
    (void)stream;
    *out = !standin.hangs || me->aborts > 0;
    return ERR_NONE;
}

static const struct comm_nccl_calls standin_calls = {
    .text = standin_text,
    .version = standin_version,
    .unique_id = standin_unique_id,
    .init = standin_init,
    .async_error = standin_async_error,
    .abort = standin_abort,
    .finalize = standin_finalize,
    .destroy = standin_destroy,
    .group_start = standin_group_start,
    .group_end = standin_group_end,
    .send = standin_send,
    .recv = standin_recv,
    .broadcast = standin_broadcast,
    .all_gather = standin_all_gather,
    .reduce = standin_reduce,
    .reduce_scatter = standin_reduce_scatter,
    .all_reduce = standin_all_reduce,
    .stream = standin_stream,
    .is_done = standin_is_done,
};

// Before the ranks of a test begin.
static void standin_begin(int world)
{
    cr_assert_eq(pthread_barrier_init(&standin.meeting, NULL, (unsigned)world), 0);
    standin.world = world;
    standin.mismatches = 0;
    standin.takes_own = false;
    standin.hangs = false;
    standin.failing_rank = -1;
}
