// SPDX-License-Identifier: Apache-2.0
// Moves data between ranks that are threads of one process: each rank publishes what it has, and reads from the other
// ranks' buffers. The accelerator copies and folds buffers in its memory; the accelerator_wait that follows returns its
// errors.
#include "ref/arithmetic/accelerator.h"
#include "ref/comm/comm_copy.h"
#include "ref/comm/comm_local.h"

// If the buffers of all ranks have at least this size together, they exceed a last-level cache that about eight cores
// share, and streaming stores write the results.
enum { LARGE_BYTES = 32 * 1024 * 1024 };

// Returns where the elements of a peer begin that this rank reads: its own shard, or those from `offset` on.
static const char *source_of(const struct comm_local *local, const struct comm_call *call, int peer, size_t offset)
{
    struct slot *slot = slot_of(local, peer);
    size_t element_bytes = dtype_bytes(call->dtype);
    if (peer == local->comm.rank && has_shards_in_send(call))
        return (const char *)call->send + call->offsets[peer] * element_bytes;
    if (slot->direct)
        return slot->send + (has_shards_in_send(call) ? slot_offsets(slot)[local->comm.rank] : offset) * element_bytes;
    if (call->operation == COMM_ALL_TO_ALL)
        return slot->small + (size_t)local->comm.rank * slot->part_bytes;
    return slot->small + offset * element_bytes;
}

static void copy(void *to, const void *from, size_t bytes, bool large)
{
    if (bytes == 0)
        return;
    if (large && !accelerator_of(to) && !accelerator_of(from))
        copy_around_cache(to, from, bytes);
    else
        bytes_copy(to, from, bytes);
}

// Orders the peers differently on each rank, so that the ranks read from different peers at a time.
static int peer_of(const struct comm *comm, int step)
{
    return (comm->rank + step) % comm->world;
}

static void all_to_all(struct comm_local *local, const struct comm_call *call, bool large)
{
    size_t element_bytes = dtype_bytes(call->dtype);
    for (int step = 0; step < local->comm.world; step++) {
        int peer = peer_of(&local->comm, step);
        if (call->recv_counts[peer] > 0)
            copy((char *)call->recv + call->recv_offsets[peer] * element_bytes, source_of(local, call, peer, 0),
                 call->recv_counts[peer] * element_bytes, large);
    }
}

static void all_gather(struct comm_local *local, const struct comm_call *call, bool large)
{
    size_t element_bytes = dtype_bytes(call->dtype);
    for (int step = 0; step < local->comm.world; step++) {
        int peer = peer_of(&local->comm, step);
        char *to = (char *)call->recv + call->offsets[peer] * element_bytes;
        // In place, this rank's shard is already in recv, and other ranks read it.
        if (peer != local->comm.rank || to != call->send)
            copy(to, source_of(local, call, peer, 0), call->counts[peer] * element_bytes, large);
    }
}

// Of a direct broadcast the root copies the end to each rank, an equal share of the work, unless an accelerator does.
static void broadcast(struct comm_local *local, const struct comm_call *call, bool large)
{
    const struct comm *comm = &local->comm;
    struct slot *root = slot_of(local, call->root);
    const char *from = source_of(local, call, call->root, 0);
    size_t share = root->direct && !accelerator_of(from) ? call->count / (size_t)comm->world : 0;
    size_t begin = call->count - share / COPY_LINE_BYTES * COPY_LINE_BYTES;
    if (comm->rank != call->root)
        copy(call->recv, from, accelerator_of(call->recv) ? call->count : begin, large);
    for (int step = 1; step < comm->world && comm->rank == call->root; step++) {
        char *to = slot_of(local, peer_of(comm, step))->recv;
        if (!accelerator_of(to))
            copy(to + begin, from + begin, call->count - begin, large);
    }
}

// Finds the beginning of each rank's elements for this rank.
static void find_sources(const struct comm_local *local, const struct comm_call *call, size_t offset,
                         const char *sources[])
{
    for (int peer = 0; peer < local->comm.world; peer++)
        sources[peer] = source_of(local, call, peer, offset);
}

// Reduces count elements and writes them to all of out[], piece by piece, so that a piece stays in the first-level
// cache from its reduction to its last copy. Streaming stores need the piece in a place of its own.
static void reduce(struct comm_local *local, const struct comm_call *call, const char *const sources[], size_t count,
                   char *const out[], int out_count, bool large)
{
    int world = local->comm.world;
    // out[0] belongs to this rank. It may also be a source: each element is read from every rank before it is written.
    if (accelerator_of(out[0])) {
        if (count > 0)
            comm_fold(call, (const void *const *)sources, world, out[0], count);
        for (int k = 1; k < out_count; k++)
            copy(out[k], out[0], count * dtype_bytes(call->dtype), large);
        return;
    }
    bool plain = call->dtype == DTYPE_FP32 && call->reduction == COMM_SUM && call->group == 0;
    if (plain && (large || out_count > 1)) {
        dtype_sum_to_all((const float *const *)sources, world, (float *const *)(void *)out, out_count, count, large);
        return;
    }
    size_t element_bytes = dtype_bytes(call->dtype), limit = PIECE_BYTES / element_bytes;
    for (size_t from = 0; from < count; from += limit) {
        size_t length = count - from < limit ? count - from : limit;
        const void *in[world];
        for (int peer = 0; peer < world; peer++)
            in[peer] = sources[peer] + from * element_bytes;
        char *piece = large ? local->piece : out[0] + from * element_bytes;
        comm_fold(call, in, world, piece, length);
        for (int k = large ? 0 : 1; k < out_count; k++)
            copy(out[k] + from * element_bytes, piece, length * element_bytes, large);
    }
}

static void reduce_scatter(struct comm_local *local, const struct comm_call *call, bool large)
{
    size_t count = call->counts[local->comm.rank], offset = 0;
    const char *sources[local->comm.world];
    for (int rank = 0; rank < local->comm.rank; rank++)
        offset += call->counts[rank];
    find_sources(local, call, offset, sources);
    if (large && !accelerator_of(call->recv))
        reduce(local, call, sources, count, (char *[]){call->recv}, 1, true);
    else if (count > 0)
        comm_fold(call, (const void *const *)sources, local->comm.world, call->recv, count);
}

// Each rank reduces its shard and writes it to the recv of all ranks. This is also safe in place: only this rank reads
// or writes this shard of any buffer, and it reads a piece from all ranks before it writes the piece.
static void all_reduce(struct comm_local *local, const struct comm_call *call, bool large)
{
    int world = local->comm.world;
    const char *sources[world];
    if (!slot_of(local, 0)->direct) {
        find_sources(local, call, 0, sources);
        if (call->count > 0)
            comm_fold(call, (const void *const *)sources, world, call->recv, call->count);
        return;
    }
    size_t offset, count = comm_shard(call->count, world, local->comm.rank, &offset);
    find_sources(local, call, offset, sources);
    char *out[world];
    for (int step = 0; step < world; step++)
        out[step] = slot_of(local, peer_of(&local->comm, step))->recv + offset * dtype_bytes(call->dtype);
    reduce(local, call, sources, count, out, world, large);
}

void comm_local_move(struct comm_local *local, const struct comm_call *call)
{
    bool large = call->count * dtype_bytes(call->dtype) * (size_t)local->comm.world >= LARGE_BYTES;
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
