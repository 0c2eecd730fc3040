// SPDX-License-Identifier: Apache-2.0
// The backend for ranks that are threads of one process. A rank publishes its call in a slot of shared memory, its
// place in the barrier (comm_meet.h), and waits for the others' slots. A small message is in the slot, and the call
// ends when it is read. Of a larger one the slot tells where it is: the others read it there, and a second barrier ends
// the call before any buffer may change.
//
// In a broadcast the others wait for the root alone, and the root of a small one for nobody: it goes on, as far
// as its slots reach. So that ranks that disagree still find out, every slot holds a digest of this call and of all
// before it, which each rank compares with those that it waits for.
#pragma once

#include "ref/comm/comm_internal.h"
#include "ref/comm/comm_meet.h"

enum {
    // The largest message that is copied into the slot; and where each rank has a processor, so that a second barrier
    // takes less time than a second copy.
    SMALL_BYTES = 8192,
    SMALLER_BYTES = 1024,
    PIECE_BYTES = 4096,  // of a reduction's result
};

struct slot {
    _Alignas(MEET_LINE_BYTES) _Atomic uint64_t came;  // the arrival's number
    uint64_t digest;                                  // of this call and all before it
    uint64_t unpaired;    // all-to-all: the sum over ranks is 0 if the counts of senders and receivers agree
    uint32_t part_bytes;  // small all-to-all: between the beginnings of the parts for each rank
    bool direct;          // the message is in the caller's buffer, which others read until the second barrier
    _Alignas(16) char small[SMALL_BYTES];        // the message, which begins in the first cache line
    _Alignas(MEET_LINE_BYTES) const char *send;  // the caller's buffers
    char *recv;
    struct comm_signature signature, previous;  // of this call and the one before
    size_t numbers[];                           // by rank; see below
};

// A wait of a rank for a channel of a peer to be full or empty, or for ranks to reach a barrier.
struct awaited {
    struct channel *channel;  // null: a barrier
    uint32_t full;
    int peer;
    uint64_t number;  // of the barrier
};

struct position {
    _Alignas(MEET_LINE_BYTES) _Atomic uint64_t entered;  // the sequence number of the rank's last call
    _Atomic enum comm_operation operation;               // of that call
    _Atomic bool left;                                   // it has closed its handle
    uint64_t left_at;                                    // its arrivals until then; does not change after `leaver`
    _Atomic uint64_t thread;                             // that used the handle last; 0: none has
    _Atomic bool overdue;                                // it has waited long
    struct awaited awaited;                              // by an overdue wait
};

// Holds one message from one rank to another.
struct channel {
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t full;  // a futex: 1 from send to receive
    struct comm_message_kind kind;
    void *memory;
    size_t room_bytes;
};

struct comm_local {
    struct comm comm;
    struct group *group;
    uint64_t arrival;                // at the barrier that begins the present call
    uint64_t digest;                 // of all calls
    struct comm_signature previous;  // of the last call
    _Alignas(MEET_LINE_BYTES) char piece[PIECE_BYTES];
};

// Shared by all ranks; the last handle that closes frees it. A part of which a rank got no handle lives as long as the
// group that was split.
struct group {
    struct meet meet;
    struct group *parent;       // of a part: the group that was split; null: none
    struct group *root, *next;  // the world that was opened, or this group itself; and the list of that world's parts
    pthread_mutex_t tree_lock;  // of a root: protects the list, and the waits that are overdue
    int world;
    int *ranks;              // of the root, by rank
    _Atomic int open_count;  // handles
    _Atomic int leaver;      // 1 + the rank that closed first; 0: none
    struct position *positions;
    struct channel **channels;  // [sender x world + receiver], each made by its first message
    struct comm_local *handles;
};

// The slot of a rank in the call that this rank is in.
static inline struct slot *slot_of(const struct comm_local *local, int rank)
{
    return meet_place(&local->group->meet, rank, local->arrival);
}

// Of a slot, for each rank: the offset in send of a direct message's part for it; and the elements that an all-to-all
// sends to it and receives from it.
static inline size_t *slot_offsets(struct slot *slot)
{
    return slot->numbers;
}

static inline size_t *slot_sent(struct slot *slot, int world)
{
    return slot->numbers + world;
}

static inline size_t *slot_received(struct slot *slot, int world)
{
    return slot->numbers + 2 * world;
}

static inline bool has_shards_in_send(const struct comm_call *call)
{
    return call->operation == COMM_ALL_TO_ALL || call->operation == COMM_REDUCE_SCATTER;
}

// The root of a broadcast for the other ranks, which wait for it alone; else MEET_ALL.
static inline int peer_awaited(const struct comm_local *local, const struct comm_call *call)
{
    return call->operation == COMM_BROADCAST && local->comm.rank != call->root ? call->root : MEET_ALL;
}

// Implement comm_send and comm_receive.
int comm_local_send(struct comm *comm, const struct comm_message *message);
int comm_local_receive(struct comm *comm, const struct comm_message *message);
void comm_local_free_channels(struct group *group);

// Makes a new group a part of another one, whose ranks are its members; leave: it is freed.
void comm_local_join_tree(struct group *group, struct group *parent, const int members[]);
void comm_local_leave_tree(struct group *group);

// Notes that this thread uses the handle, or has made it.
void comm_local_used(struct comm_local *local);

// Called about once a second by a waiting thread: fails the root if it waits in a circle. came: the wait is over.
void comm_local_overdue(struct comm_local *local, const struct awaited *awaited);
void comm_local_came(struct comm_local *local);

// Writes this rank's slot of the call.
void comm_local_publish(struct comm_local *local, const struct comm_call *call);

// Compares the call with those of the ranks that it has waited for, and fails the group if they differ. Ranks that have
// waited for the same slots reach the same conclusion. *direct: any message among them is.
int comm_local_compare(struct comm_local *local, const struct comm_call *call, bool *direct);

// Moves the data of a call whose slots are published and agree. Accesses the buffers of other ranks.
void comm_local_move(struct comm_local *local, const struct comm_call *call);
