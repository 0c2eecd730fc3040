// SPDX-License-Identifier: Apache-2.0
// How data moves between ranks that are threads of one process: each pulls its own from the others' buffers.
#include "comm_copy.h"
#include "comm_local.h"

enum { LARGE_BYTES = 1024 * 1024 };  // results of more than this go around the caches

static void copy(void *to, const void *from, size_t bytes, bool large)
{
    if (bytes == 0)
        return;
    if (large)
        copy_around_cache(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

// The peers in an order that differs from rank to rank, so that not all read from the same one at a time.
static int peer_of(const struct comm *comm, int step)
{
    return (comm->rank + step) % comm->world;
}

static void all_to_all(struct comm_local *local, const struct comm_call *call, bool large)
{
    size_t element_bytes = dtype_bytes(call->send_dtype);
    for (int step = 0; step < local->comm.world; step++) {
        int peer = peer_of(&local->comm, step);
        const struct slot *slot = slot_of(local->group, peer, call->signature.sequence);
        if (call->recv_counts[peer] > 0)
            copy((char *)call->recv + call->recv_offsets[peer] * element_bytes,
                 slot->send + slot->offsets[local->comm.rank] * element_bytes,
                 call->recv_counts[peer] * element_bytes, large);
    }
}

static void all_gather(struct comm_local *local, const struct comm_call *call, bool large)
{
    size_t element_bytes = dtype_bytes(call->send_dtype);
    for (int step = 0; step < local->comm.world; step++) {
        int peer = peer_of(&local->comm, step);
        char *to = (char *)call->recv + call->offsets[peer] * element_bytes;
        // In place, this rank's share is where it belongs, and others are reading it.
        if (peer != local->comm.rank || to != call->send)
            copy(to, slot_of(local->group, peer, call->signature.sequence)->send, call->counts[peer] * element_bytes,
                 large);
    }
}

static void broadcast(struct comm_local *local, const struct comm_call *call, bool large)
{
    if (local->comm.rank != call->root)
        copy(call->recv, slot_of(local->group, call->root, call->signature.sequence)->send, call->count, large);
}

// The reduction of count elements that begin at offsets[rank] of each rank's send: into the piece buffer, from which
// they are copied, or straight to where they belong.
static void fold_piece(struct comm_local *local, const struct comm_call *call, size_t from, size_t count, void *out)
{
    for (int peer = 0; peer < local->comm.world; peer++) {
        const struct slot *slot = slot_of(local->group, peer, call->signature.sequence);
        size_t offset = has_shares_in_send(call) ? slot->offsets[local->comm.rank] : 0;
        local->sources[peer] = slot->send + (offset + from) * dtype_bytes(call->send_dtype);
    }
    comm_fold(call, local->sources, local->comm.world, out, count);
}

static void reduce_scatter(struct comm_local *local, const struct comm_call *call, bool large)
{
    size_t count = call->counts[local->comm.rank], element_bytes = dtype_bytes(call->recv_dtype);
    // A sum that is added to recv reads it anyway.
    if (!large || call->add) {
        if (count > 0)
            fold_piece(local, call, 0, count, call->recv);
        return;
    }
    for (size_t from = 0, limit = PIECE_BYTES / element_bytes; from < count; from += limit) {
        size_t length = count - from < limit ? count - from : limit;
        fold_piece(local, call, from, length, local->piece);
        copy_around_cache((char *)call->recv + from * element_bytes, local->piece, length * element_bytes);
    }
}

// Each rank reduces its share and writes it to everybody's recv. In place, too, that is safe: nobody but this rank
// reads or writes this share of any buffer, and a piece is read everywhere before it is written anywhere.
static void all_reduce(struct comm_local *local, const struct comm_call *call, bool large)
{
    if (!slot_of(local->group, 0, call->signature.sequence)->direct) {
        if (call->count > 0)
            fold_piece(local, call, 0, call->count, call->recv);
        return;
    }
    size_t offset, element_bytes = dtype_bytes(call->recv_dtype);
    size_t count = comm_share(call->count, local->comm.world, local->comm.rank, &offset);
    for (size_t from = 0, limit = PIECE_BYTES / element_bytes; from < count; from += limit) {
        size_t length = count - from < limit ? count - from : limit;
        fold_piece(local, call, offset + from, length, local->piece);
        for (int step = 0; step < local->comm.world; step++) {
            char *recv = slot_of(local->group, peer_of(&local->comm, step), call->signature.sequence)->recv;
            copy(recv + (offset + from) * element_bytes, local->piece, length * element_bytes, large);
        }
    }
}

// What this rank writes in the call; in an all-to-all, what it sends, which is about the same.
static size_t written_bytes(const struct comm_local *local, const struct comm_call *call)
{
    size_t count = call->operation == COMM_REDUCE_SCATTER ? call->counts[local->comm.rank] : call->count;
    return count * dtype_bytes(call->recv_dtype);
}

void comm_local_move(struct comm_local *local, const struct comm_call *call)
{
    bool large = written_bytes(local, call) > LARGE_BYTES;
    switch (call->operation) {
    case COMM_ALL_TO_ALL:
        all_to_all(local, call, large);
        break;
    case COMM_REDUCE_SCATTER:
        reduce_scatter(local, call, large);
        break;
    case COMM_ALL_GATHER:
        all_gather(local, call, large);
        break;
    case COMM_ALL_REDUCE:
        all_reduce(local, call, large);
        break;
    case COMM_BROADCAST:
        broadcast(local, call, large);
        break;
    case COMM_BARRIER:
        break;
    }
    if (large)
        copy_around_cache_end();
}

