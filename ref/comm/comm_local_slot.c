// SPDX-License-Identifier: Apache-2.0
// What ranks that are threads tell each other about a call before data moves: each writes its slot, and compares it
// with the slots that it has waited for.
#include "ref/comm/comm_local.h"

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/random.h"

#include <inttypes.h>
#include <string.h>
#define XXH_INLINE_ALL  // a signature has few bytes
#include <xxhash.h>

// Elements of the largest part that a rank sends to another.
static size_t largest_part(const struct comm_call *call, int world)
{
    size_t most = 0;
    for (int rank = 0; rank < world; rank++)
        most = call->counts[rank] > most ? call->counts[rank] : most;
    return most;
}

// Returns the elements that a slot of this call needs room for, if the message is copied there. The parts of an
// all-to-all have places of equal size, so that a receiver finds its own.
static size_t published_count(const struct comm *comm, const struct comm_call *call)
{
    switch (call->operation) {
    case COMM_ALL_TO_ALL:
        return largest_part(call, comm->world) * (size_t)comm->world;
    case COMM_ALL_GATHER:
        return call->counts[comm->rank];
    case COMM_BROADCAST:
        return comm->rank == call->root ? call->count : 0;
    default:
        return call->count;
    }
}

// A number that says who sends how much to whom. Of one pair it differs wherever the count does.
static uint64_t pair_number(int from, int to, size_t count)
{
    return (random_mix((uint64_t)from << 32 | (uint64_t)to) | 1) * count;
}

// Returns this rank's part of `unpaired`.
static uint64_t publish_pairs(struct slot *slot, const struct comm_call *call, int self, int world)
{
    uint64_t unpaired = 0;
    for (int rank = 0; rank < world; rank++) {
        slot_sent(slot, world)[rank] = call->counts[rank];
        slot_received(slot, world)[rank] = call->recv_counts[rank];
        unpaired += pair_number(self, rank, call->counts[rank]) - pair_number(rank, self, call->recv_counts[rank]);
    }
    return unpaired;
}

// The shards of a reduce-scatter follow each other; all ranks know their counts. Nobody else reads a rank's part for
// itself.
static void copy_shards(struct slot *slot, const struct comm_call *call, int self, int world)
{
    size_t element_bytes = dtype_bytes(call->dtype), end = 0;
    for (int rank = 0; rank < world; rank++) {
        size_t bytes = call->counts[rank] * element_bytes;
        if (bytes > 0 && rank != self)
            memcpy(slot->small + end, (const char *)call->send + call->offsets[rank] * element_bytes, bytes);
        end += call->operation == COMM_ALL_TO_ALL ? slot->part_bytes : bytes;
    }
}

// The fields that others watch are written last and together, so that others fetch the slot's first cache line once.
void comm_local_publish(struct comm_local *local, const struct comm_call *call)
{
    const struct comm *comm = &local->comm;
    struct slot *slot = slot_of(local, comm->rank);
    size_t bytes = published_count(comm, call) * dtype_bytes(call->dtype);
    bool direct = bytes > (local->group->meet.crowded ? SMALL_BYTES : SMALLER_BYTES) || accelerator_of(call->send);
    local->digest = XXH3_64bits_withSeed(&call->signature, sizeof call->signature, local->digest);
    slot->previous = local->previous;
    slot->signature = local->previous = call->signature;
    slot->send = call->send;
    slot->recv = call->recv;
    uint64_t unpaired = call->operation == COMM_ALL_TO_ALL ? publish_pairs(slot, call, comm->rank, comm->world) : 0;
    if (direct && has_shards_in_send(call))
        memcpy(slot_offsets(slot), call->offsets, (size_t)comm->world * sizeof call->offsets[0]);
    slot->digest = local->digest;
    slot->unpaired = unpaired;
    slot->direct = direct;
    slot->part_bytes = direct ? 0 : (uint32_t)(bytes / (size_t)comm->world);
    if (!direct && has_shards_in_send(call))
        copy_shards(slot, call, comm->rank, comm->world);
    else if (!direct && bytes > 0)
        memcpy(slot->small, call->send, bytes);
}

static int disagree(struct comm_local *local, int a_rank, int b_rank)
{
    const struct slot *a_slot = slot_of(local, a_rank), *b_slot = slot_of(local, b_rank);
    const struct comm_signature *a = &a_slot->signature, *b = &b_slot->signature;
    char a_text[128], b_text[128];
    if (memcmp(a, b, sizeof *a) == 0) {
        a = &a_slot->previous;
        b = &b_slot->previous;
    }
    comm_signature_text(a, a_text, sizeof a_text);
    comm_signature_text(b, b_text, sizeof b_text);
    bool known = memcmp(a, b, sizeof *a) != 0;
    meet_fail(&local->group->meet, ERR_INTERNAL,
              "the ranks disagree about %s %" PRIu64 ": rank %d calls %s, rank %d %s",
              known ? "collective" : "a broadcast before collective", a->sequence, a_rank, a_text, b_rank, b_text);
    return meet_check(&local->group->meet);
}

static int disagree_about_pairs(struct comm_local *local)
{
    int world = local->comm.world;
    for (int from = 0; from < world; from++)
        for (int to = 0; to < world; to++) {
            size_t sent = slot_sent(slot_of(local, from), world)[to];
            size_t expected = slot_received(slot_of(local, to), world)[from];
            if (sent != expected)
                meet_fail(&local->group->meet, ERR_INTERNAL,
                          "the ranks disagree about collective %" PRIu64 ", all-to-all: rank %d sends %zu elements to "
                          "rank %d, which expects %zu",
                          local->comm.sequence, from, sent, to, expected);
        }
    return meet_check(&local->group->meet);
}

int comm_local_compare(struct comm_local *local, const struct comm_call *call, bool *direct)
{
    int peer = peer_awaited(local, call), self = local->comm.rank;
    uint64_t unpaired = 0;
    *direct = false;
    if (peer != MEET_ALL) {
        const struct slot *slot = slot_of(local, peer);
        *direct = slot->direct;
        return slot->digest == local->digest ? ERR_NONE
                                             : disagree(local, peer < self ? peer : self, peer < self ? self : peer);
    }
    uint64_t digest = slot_of(local, 0)->digest;
    for (int rank = 0; rank < local->comm.world; rank++) {
        const struct slot *slot = slot_of(local, rank);
        if (slot->digest != digest)
            return disagree(local, 0, rank);
        unpaired += slot->unpaired;
        *direct |= slot->direct;
    }
    return unpaired == 0 ? ERR_NONE : disagree_about_pairs(local);
}
