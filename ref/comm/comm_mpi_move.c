// SPDX-License-Identifier: Apache-2.0
// Moves data between ranks that are processes. In round s each rank sends to the rank s positions after it and receives
// from the rank s positions before it, so that every link carries one message per round. In a reduction each rank
// receives the other ranks' pieces of its shard and folds them in canonical order while the next piece is in flight; it
// holds at most two pieces.
#include "ref/comm/comm_mpi.h"

#include "base/err.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

// Rounds in flight; and the largest all-reduce, in bytes of all ranks, in which every rank sends everything to all.
enum { WINDOW = 16, SMALL_BYTES = 64 << 10 };

int comm_mpi_send(struct comm_mpi *mpi, const void *from, size_t bytes, int peer, MPI_Request *out)
{
    assert(bytes <= INT_MAX && peer >= 0 && peer < mpi->comm.world && peer != mpi->comm.rank);
    return comm_mpi_code(MPI_Isend(from, (int)bytes, MPI_BYTE, peer, 0, mpi->data, out), "MPI_Isend");
}

int comm_mpi_receive(struct comm_mpi *mpi, void *to, size_t bytes, int peer, MPI_Request *out)
{
    assert(bytes <= INT_MAX && peer >= 0 && peer < mpi->comm.world && peer != mpi->comm.rank);
    return comm_mpi_code(MPI_Irecv(to, (int)bytes, MPI_BYTE, peer, 0, mpi->data, out), "MPI_Irecv");
}

static int peer_after(const struct comm *comm, int round)
{
    return (comm->rank + round) % comm->world;
}

static int peer_before(const struct comm *comm, int round)
{
    return (comm->rank - round + comm->world) % comm->world;
}

static size_t message_bytes(const struct comm_mpi *mpi, size_t bytes, size_t at)
{
    size_t left = bytes > at ? bytes - at : 0;
    return left < mpi->message_bytes ? left : mpi->message_bytes;
}

// Reductions: the full buffer of every rank, because they are too small to be cut into shards.
static struct comm_transfer transfer_of(const struct comm_mpi *mpi, const struct comm_call *call, int to, int from)
{
    size_t bytes = call->count * dtype_bytes(call->dtype);
    if (call->operation != COMM_ALL_REDUCE)
        return comm_transfer_of(call, mpi->comm.rank, to, from);
    return (struct comm_transfer){call->send, (char *)mpi->stage + (size_t)from * bytes, bytes, bytes};
}

// A rank's own part, which may be in its place already.
static void copy_own(struct comm_transfer own)
{
    if (own.send != own.recv && own.recv_bytes > 0)
        memcpy(own.recv, own.send, own.recv_bytes);
}

// Exchanges the transfers of each pair of ranks. Both sides name the same sizes. Each rank copies its `own` part,
// unless null, while the first messages are in flight.
static int exchange(struct comm_mpi *mpi, const struct comm_call *call, const struct comm_transfer *own)
{
    const struct comm *comm = &mpi->comm;
    if (own && comm->world == 1)
        copy_own(*own);
    for (int first = 1; first < comm->world; first += WINDOW) {
        bool more = true;
        for (size_t at = 0; more; at += mpi->message_bytes) {
            MPI_Request requests[2 * WINDOW];
            int count = 0;
            more = false;
            for (int round = first; round < comm->world && round < first + WINDOW; round++) {
                int to = peer_after(comm, round), from = peer_before(comm, round);
                struct comm_transfer t = transfer_of(mpi, call, to, from);
                size_t send = message_bytes(mpi, t.send_bytes, at), recv = message_bytes(mpi, t.recv_bytes, at);
                if (recv > 0)
                    TRY(comm_mpi_receive(mpi, t.recv + at, recv, from, &requests[count++]));
                if (send > 0)
                    TRY(comm_mpi_send(mpi, t.send + at, send, to, &requests[count++]));
                more |= send == mpi->message_bytes || recv == mpi->message_bytes;
            }
            if (own && first == 1 && at == 0)
                copy_own(*own);
            TRY(comm_mpi_wait(mpi, requests, count));
        }
    }
    return ERR_NONE;
}

static int exchange_all(struct comm_mpi *mpi, const struct comm_call *call)
{
    const struct comm_transfer own = transfer_of(mpi, call, mpi->comm.rank, mpi->comm.rank);
    return exchange(mpi, call, &own);
}

static unsigned char *piece_in_stage(const struct comm_mpi *mpi, const struct comm_pieces *p, int rank, size_t k)
{
    size_t slot = (k % 2) * (size_t)mpi->comm.world + (size_t)rank;
    return mpi->stage + slot * p->piece_count * p->element_bytes;
}

static int start_piece(struct comm_mpi *mpi, const struct comm_pieces *p, size_t k, MPI_Request requests[], int *count)
{
    const struct comm *comm = &mpi->comm;
    size_t own = comm_piece_length(p, comm->rank, k) * p->element_bytes;
    *count = 0;
    for (int round = 1; round < comm->world; round++) {
        int to = peer_after(comm, round), from = peer_before(comm, round);
        size_t bytes = comm_piece_length(p, to, k) * p->element_bytes;
        if (own > 0)
            TRY(comm_mpi_receive(mpi, piece_in_stage(mpi, p, from, k), own, from, &requests[(*count)++]));
        if (bytes > 0)
            TRY(comm_mpi_send(mpi, comm_piece_in_send(p, to, k), bytes, to, &requests[(*count)++]));
    }
    return ERR_NONE;
}

static void fold_piece(const struct comm_mpi *mpi, const struct comm_pieces *p, size_t k, char *out)
{
    int world = mpi->comm.world, rank = mpi->comm.rank;
    size_t count = comm_piece_length(p, rank, k);
    if (count == 0)
        return;
    const void *in[world];
    for (int peer = 0; peer < world; peer++)
        in[peer] = peer == rank ? (const void *)comm_piece_in_send(p, rank, k) : piece_in_stage(mpi, p, peer, k);
    comm_fold(p->call, in, world, out + k * p->piece_count * p->element_bytes, count);
}

static int reduce_shards(struct comm_mpi *mpi, const struct comm_call *call, const size_t counts[],
                         const size_t offsets[], char *out)
{
    if (call->group > 0)
        return comm_mpi_reduce_groups(mpi, call, counts, offsets, out);
    int world = mpi->comm.world, in_flight[2] = {0, 0};
    size_t largest = comm_largest_shard(counts, world), element_bytes = dtype_bytes(call->dtype);
    const struct comm_pieces p = {call, counts, offsets, element_bytes,
                                  mpi->stage_bytes / (2 * (size_t)world * element_bytes)};
    size_t pieces = (largest + p.piece_count - 1) / p.piece_count;
    MPI_Request *requests[2] = {mpi->requests, mpi->requests + 2 * world};
    for (size_t k = 0; k <= pieces; k++) {
        if (k < pieces)
            TRY(start_piece(mpi, &p, k, requests[k % 2], &in_flight[k % 2]));
        if (k == 0)
            continue;
        TRY(comm_mpi_wait(mpi, requests[(k - 1) % 2], in_flight[(k - 1) % 2]));
        fold_piece(mpi, &p, k - 1, out);
    }
    return ERR_NONE;
}

static int all_reduce(struct comm_mpi *mpi, const struct comm_call *call)
{
    int world = mpi->comm.world;
    size_t bytes = call->count * dtype_bytes(call->dtype);
    if (bytes == 0)
        return ERR_NONE;
    if (bytes * (size_t)world <= SMALL_BYTES) {
        const void *in[world];
        TRY(exchange(mpi, call, NULL));
        for (int peer = 0; peer < world; peer++)
            in[peer] = peer == mpi->comm.rank ? call->send : (const void *)(mpi->stage + (size_t)peer * bytes);
        comm_fold(call, in, world, call->recv, call->count);
        return ERR_NONE;
    }
    size_t counts[world], offsets[world];
    struct comm_call gather = comm_gather_after(call, world, mpi->comm.rank, counts, offsets);
    // Safe in place: reduce_shards writes only this rank's shard, which no other rank reads, and the all-gather
    // overwrites the other shards after they have been sent.
    TRY(reduce_shards(mpi, call, counts, offsets,
                      (char *)call->recv + offsets[mpi->comm.rank] * dtype_bytes(call->dtype)));
    return exchange_all(mpi, &gather);
}

// Sends along a binomial tree of the ranks, counted from the root: rank v receives from v without its highest bit.
static int broadcast_message(struct comm_mpi *mpi, char *buffer, size_t bytes, int root)
{
    int world = mpi->comm.world, v = (mpi->comm.rank - root + world) % world, bit = 1, count = 0;
    MPI_Request requests[32];
    while (bit <= v)
        bit *= 2;
    if (v > 0) {
        TRY(comm_mpi_receive(mpi, buffer, bytes, (v - bit / 2 + root) % world, requests));
        TRY(comm_mpi_wait(mpi, requests, 1));
    }
    for (; v + bit < world; bit *= 2)
        TRY(comm_mpi_send(mpi, buffer, bytes, (v + bit + root) % world, &requests[count++]));
    return comm_mpi_wait(mpi, requests, count);
}

static int broadcast(struct comm_mpi *mpi, const struct comm_call *call)
{
    for (size_t at = 0; at < call->count; at += mpi->message_bytes)
        TRY(broadcast_message(mpi, (char *)call->recv + at, message_bytes(mpi, call->count, at), call->root));
    return ERR_NONE;
}

int comm_mpi_move(struct comm_mpi *mpi, const struct comm_call *call)
{
    switch (call->operation) {
    case COMM_REDUCE_SCATTER:
        return reduce_shards(mpi, call, call->counts, call->offsets, call->recv);
    case COMM_ALL_TO_ALL:
    case COMM_ALL_GATHER:
        return exchange_all(mpi, call);
    case COMM_ALL_REDUCE:
        return all_reduce(mpi, call);
    case COMM_BROADCAST:
        return broadcast(mpi, call);
    case COMM_BARRIER:
        break;
    }
    return ERR_NONE;
}

int comm_mpi_exchange(struct comm *comm, int peer, const void *send, void *recv, size_t bytes)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    for (size_t at = 0; at < bytes; at += mpi->message_bytes) {
        MPI_Request requests[2];
        size_t length = message_bytes(mpi, bytes, at);
        TRY(comm_mpi_receive(mpi, (char *)recv + at, length, peer, &requests[0]));
        TRY(comm_mpi_send(mpi, (const char *)send + at, length, peer, &requests[1]));
        TRY(comm_mpi_wait(mpi, requests, 2));
    }
    return ERR_NONE;
}
