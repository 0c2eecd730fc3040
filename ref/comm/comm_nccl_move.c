// SPDX-License-Identifier: Apache-2.0
// Moves data between ranks with one GPU each. A group of calls sends to the rank s positions after this one and
// receives from the rank s positions before it, for s = 1, 2, ..., so that all links carry the same load. In a
// reduction each rank receives the other ranks' pieces of its shard side by side and folds them in canonical order. One
// stream runs all of it, so a piece is folded before the next one overwrites it.
#include "ref/comm/comm_nccl.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

// Pieces begin at multiples of this many elements, for the GPU's wide loads.
enum { PIECE_ALIGNMENT = 64 };

struct transfer {
    const char *send;
    char *recv;
    size_t send_bytes, recv_bytes;
};

// A reduction in which each rank owns one shard. Piece k of all shards is in flight at the same time.
struct pieces {
    const size_t *counts, *offsets;  // of the shards in send
    size_t element_bytes, piece_count, k;
};

typedef struct transfer transfer_of(const struct comm_nccl *nccl, const struct comm_call *call,
                                    const struct pieces *pieces, int to, int from);

// Calls the sends and receives of a group. Sizes agree between ranks, because comm_nccl.c has compared them.
static int name_transfers(struct comm_nccl *nccl, const struct comm_call *call, const struct pieces *pieces,
                          transfer_of *of)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    int rank = nccl->comm.rank, world = nccl->comm.world;
    cudaStream_t stream = calls->stream();
    for (int round = 1; round < world; round++) {
        int to = (rank + round) % world, from = (rank - round + world) % world;
        struct transfer t = of(nccl, call, pieces, to, from);
        if (t.send_bytes > 0)
            TRY(comm_nccl_code(nccl, calls->send(t.send, t.send_bytes, ncclInt8, to, nccl->nccl, stream), "ncclSend"));
        if (t.recv_bytes > 0)
            TRY(comm_nccl_code(nccl, calls->recv(t.recv, t.recv_bytes, ncclInt8, from, nccl->nccl, stream),
                               "ncclRecv"));
    }
    return ERR_NONE;
}

static int exchange(struct comm_nccl *nccl, const struct comm_call *call, const struct pieces *pieces, transfer_of *of)
{
    TRY(comm_nccl_begin(nccl));
    int rc = name_transfers(nccl, call, pieces, of);
    if (rc != ERR_NONE) {
        // Ends the group, or NCCL would add all later calls of this thread to it.
        (void)nccl->options.calls->group_end();
        return rc;
    }
    return comm_nccl_end(nccl);
}

static struct transfer of_all_to_all(const struct comm_nccl *nccl, const struct comm_call *call,
                                     const struct pieces *pieces, int to, int from)
{
    (void)nccl, (void)pieces;
    size_t bytes = dtype_bytes(call->send_dtype);
    return (struct transfer){(const char *)call->send + call->offsets[to] * bytes,
                             (char *)call->recv + call->recv_offsets[from] * bytes, call->counts[to] * bytes,
                             call->recv_counts[from] * bytes};
}

static struct transfer of_all_gather(const struct comm_nccl *nccl, const struct comm_call *call,
                                     const struct pieces *pieces, int to, int from)
{
    (void)pieces, (void)to;
    size_t bytes = dtype_bytes(call->send_dtype);
    return (struct transfer){call->send, (char *)call->recv + call->offsets[from] * bytes,
                             call->counts[nccl->comm.rank] * bytes, call->counts[from] * bytes};
}

static size_t piece_length(const struct pieces *p, int rank)
{
    size_t count = p->counts[rank], at = p->k * p->piece_count;
    if (at >= count)
        return 0;
    return count - at < p->piece_count ? count - at : p->piece_count;
}

static const char *piece_in_send(const struct comm_call *call, const struct pieces *p, int rank)
{
    return (const char *)call->send + (p->offsets[rank] + p->k * p->piece_count) * p->element_bytes;
}

static char *piece_in_stage(const struct comm_nccl *nccl, const struct pieces *p, int rank)
{
    return (char *)nccl->stage + (size_t)rank * p->piece_count * p->element_bytes;
}

static struct transfer of_piece(const struct comm_nccl *nccl, const struct comm_call *call, const struct pieces *p,
                                int to, int from)
{
    return (struct transfer){piece_in_send(call, p, to), piece_in_stage(nccl, p, from),
                             piece_length(p, to) * p->element_bytes,
                             piece_length(p, nccl->comm.rank) * p->element_bytes};
}

static void fold_piece(const struct comm_nccl *nccl, const struct comm_call *call, const struct pieces *p, char *out)
{
    int world = nccl->comm.world, rank = nccl->comm.rank;
    size_t count = piece_length(p, rank);
    if (count == 0)
        return;
    const void *in[world];
    for (int peer = 0; peer < world; peer++)
        in[peer] = peer == rank ? (const void *)piece_in_send(call, p, rank) : piece_in_stage(nccl, p, peer);
    comm_fold(call, in, world, out + p->k * p->piece_count * dtype_bytes(call->recv_dtype), count);
}

// All ranks cut shards into the same number of pieces, so they run the same number of groups.
static int reduce_shards(struct comm_nccl *nccl, const struct comm_call *call, const size_t counts[],
                         const size_t offsets[], char *out)
{
    size_t world = (size_t)nccl->comm.world, element_bytes = dtype_bytes(call->send_dtype), largest = 0;
    for (size_t rank = 0; rank < world; rank++)
        largest = counts[rank] > largest ? counts[rank] : largest;
    struct pieces p = {.counts = counts, .offsets = offsets, .element_bytes = element_bytes};
    p.piece_count = nccl->options.stage_bytes / (world * element_bytes) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
    if (p.piece_count == 0)
        return err_set(ERR_USAGE, "NCCL: a stage of %zu bytes for %zu ranks; each rank needs %zu",
                       nccl->options.stage_bytes, world, PIECE_ALIGNMENT * element_bytes);
    for (; p.k * p.piece_count < largest; p.k++) {
        if (world > 1)
            TRY(exchange(nccl, call, &p, of_piece));
        fold_piece(nccl, call, &p, out);
    }
    return ERR_NONE;
}

static int copy_own(struct transfer own)
{
    return own.send != own.recv && own.recv_bytes > 0 ? bytes_copy(own.recv, own.send, own.recv_bytes) : ERR_NONE;
}

static int gather(struct comm_nccl *nccl, const struct comm_call *call, transfer_of *of)
{
    TRY(copy_own(of(nccl, call, NULL, nccl->comm.rank, nccl->comm.rank)));
    return nccl->comm.world > 1 ? exchange(nccl, call, NULL, of) : ERR_NONE;
}

// Safe in place: reduce_shards writes only this rank's shard, which no other rank reads, and gather overwrites the
// other shards after they have been sent.
static int all_reduce(struct comm_nccl *nccl, const struct comm_call *call)
{
    int world = nccl->comm.world;
    size_t counts[world], offsets[world];
    for (int rank = 0; rank < world; rank++)
        counts[rank] = comm_shard(call->count, world, rank, &offsets[rank]);
    char *own = (char *)call->recv + offsets[nccl->comm.rank] * dtype_bytes(call->recv_dtype);
    TRY(reduce_shards(nccl, call, counts, offsets, own));
    struct comm_call shards = *call;
    shards.send = own;
    shards.counts = counts;
    shards.offsets = offsets;
    return gather(nccl, &shards, of_all_gather);
}

static int broadcast(struct comm_nccl *nccl, const struct comm_call *call)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    if (nccl->comm.world == 1)
        return ERR_NONE;
    TRY(comm_nccl_begin(nccl));
    int rc = comm_nccl_code(
        nccl, calls->broadcast(call->send, call->recv, call->count, ncclInt8, call->root, nccl->nccl, calls->stream()),
        "ncclBroadcast");
    int ended = comm_nccl_end(nccl);
    return rc != ERR_NONE ? rc : ended;
}

int comm_nccl_move(struct comm_nccl *nccl, const struct comm_call *call)
{
    switch (call->operation) {
    case COMM_ALL_TO_ALL:
        return gather(nccl, call, of_all_to_all);
    case COMM_REDUCE_SCATTER:
        return reduce_shards(nccl, call, call->counts, call->offsets, call->recv);
    case COMM_ALL_GATHER:
        return gather(nccl, call, of_all_gather);
    case COMM_ALL_REDUCE:
        return all_reduce(nccl, call);
    case COMM_BROADCAST:
        return broadcast(nccl, call);
    case COMM_BARRIER:
        break;
    }
    return ERR_NONE;
}
