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

static char *piece_in_stage(const struct comm_nccl *nccl, const struct comm_pieces *p, int rank)
{
    return (char *)nccl->stage + (size_t)rank * p->piece_count * p->element_bytes;
}

// Pieces: null in an operation without a reduction.
static struct comm_transfer transfer_of(const struct comm_nccl *nccl, const struct comm_call *call,
                                        const struct comm_pieces *p, size_t k, int to, int from)
{
    if (!p)
        return comm_transfer_of(call, nccl->comm.rank, to, from);
    return (struct comm_transfer){comm_piece_in_send(p, to, k), piece_in_stage(nccl, p, from),
                                  comm_piece_length(p, to, k) * p->element_bytes,
                                  comm_piece_length(p, nccl->comm.rank, k) * p->element_bytes};
}

// Calls the sends and receives of a group. Sizes agree between ranks, because comm_nccl.c has compared them.
static int name_transfers(struct comm_nccl *nccl, const struct comm_call *call, const struct comm_pieces *p, size_t k)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    int rank = nccl->comm.rank, world = nccl->comm.world;
    cudaStream_t stream = calls->stream();
    for (int round = 1; round < world; round++) {
        int to = (rank + round) % world, from = (rank - round + world) % world;
        struct comm_transfer t = transfer_of(nccl, call, p, k, to, from);
        if (t.send_bytes > 0)
            TRY(comm_nccl_code(nccl, calls->send(t.send, t.send_bytes, ncclInt8, to, nccl->nccl, stream), "ncclSend"));
        if (t.recv_bytes > 0)
            TRY(comm_nccl_code(nccl, calls->recv(t.recv, t.recv_bytes, ncclInt8, from, nccl->nccl, stream),
                               "ncclRecv"));
    }
    return ERR_NONE;
}

static int exchange(struct comm_nccl *nccl, const struct comm_call *call, const struct comm_pieces *p, size_t k)
{
    TRY(comm_nccl_begin(nccl));
    int rc = name_transfers(nccl, call, p, k);
    if (rc != ERR_NONE) {
        // Ends the group, or NCCL would add all later calls of this thread to it.
        (void)nccl->options.calls->group_end();
        return rc;
    }
    return comm_nccl_end(nccl);
}

static void fold_piece(const struct comm_nccl *nccl, const struct comm_pieces *p, size_t k, char *out)
{
    int world = nccl->comm.world, rank = nccl->comm.rank;
    size_t count = comm_piece_length(p, rank, k);
    if (count == 0)
        return;
    const void *in[world];
    for (int peer = 0; peer < world; peer++)
        in[peer] = peer == rank ? (const void *)comm_piece_in_send(p, rank, k) : piece_in_stage(nccl, p, peer);
    comm_fold(p->call, in, world, out + k * p->piece_count * p->element_bytes, count);
}

// All ranks cut shards into the same number of pieces, so they run the same number of groups.
static int reduce_shards(struct comm_nccl *nccl, const struct comm_call *call, const size_t counts[],
                         const size_t offsets[], char *out)
{
    size_t world = (size_t)nccl->comm.world, element_bytes = dtype_bytes(call->dtype);
    const struct comm_pieces p = {call, counts, offsets, element_bytes,
                                  nccl->options.stage_bytes / (world * element_bytes) / PIECE_ALIGNMENT *
                                      PIECE_ALIGNMENT};
    if (p.piece_count == 0)
        return err_set(ERR_USAGE, "NCCL: a stage of %zu bytes for %zu ranks; each rank needs %zu",
                       nccl->options.stage_bytes, world, PIECE_ALIGNMENT * element_bytes);
    for (size_t k = 0; k * p.piece_count < comm_largest_shard(counts, nccl->comm.world); k++) {
        if (world > 1)
            TRY(exchange(nccl, call, &p, k));
        fold_piece(nccl, &p, k, out);
    }
    return ERR_NONE;
}

static int copy_own(struct comm_transfer own)
{
    return own.send != own.recv && own.recv_bytes > 0 ? bytes_copy(own.recv, own.send, own.recv_bytes) : ERR_NONE;
}

static int gather(struct comm_nccl *nccl, const struct comm_call *call)
{
    TRY(copy_own(comm_transfer_of(call, nccl->comm.rank, nccl->comm.rank, nccl->comm.rank)));
    return nccl->comm.world > 1 ? exchange(nccl, call, NULL, 0) : ERR_NONE;
}

// Safe in place: reduce_shards writes only this rank's shard, which no other rank reads, and gather overwrites the
// other shards after they have been sent.
static int all_reduce(struct comm_nccl *nccl, const struct comm_call *call)
{
    int world = nccl->comm.world;
    size_t counts[world], offsets[world];
    struct comm_call shards = comm_gather_after(call, world, nccl->comm.rank, counts, offsets);
    TRY(reduce_shards(nccl, call, counts, offsets,
                      (char *)call->recv + offsets[nccl->comm.rank] * dtype_bytes(call->dtype)));
    return gather(nccl, &shards);
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
    case COMM_REDUCE_SCATTER:
        return reduce_shards(nccl, call, call->counts, call->offsets, call->recv);
    case COMM_ALL_TO_ALL:
    case COMM_ALL_GATHER:
        return gather(nccl, call);
    case COMM_ALL_REDUCE:
        return all_reduce(nccl, call);
    case COMM_BROADCAST:
        return broadcast(nccl, call);
    case COMM_BARRIER:
        break;
    }
    return ERR_NONE;
}
