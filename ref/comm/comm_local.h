// SPDX-License-Identifier: Apache-2.0
// The backend for ranks that are threads of one process. A rank publishes its call in a slot, meets the others at a
// barrier, and copies what it needs directly from their buffers; a second barrier ends the call before any buffer may
// change. Small messages are copied into the slot instead and need no second barrier.
//
// A rank has two slots and uses them in turn. It overwrites a slot two calls later; all ranks have then passed the
// barrier of the call between, so none of them still reads the slot.
#ifndef ZG_COMM_LOCAL_H
#define ZG_COMM_LOCAL_H

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
    struct comm_signature signature;
    const char *send;  // the caller's buffer, or small
    char *recv;
    bool direct;     // send is the caller's buffer, which others read until the second barrier
    size_t *counts;  // reduce-scatter, all-to-all: elements for each rank, and their offsets in send
    size_t *offsets;
    size_t *recv_counts;  // all-to-all
    _Alignas(MEET_LINE_BYTES) char small[SMALL_BYTES];
};

enum overdue { OVERDUE_NOT, OVERDUE_COLLECTIVE, OVERDUE_MESSAGE };

struct position {
    _Alignas(MEET_LINE_BYTES) _Atomic uint64_t entered;  // the sequence number of the rank's last call
    _Atomic bool left;                                   // it has closed its handle
    _Atomic uint64_t thread;                             // that used the handle last; 0: none has
    _Atomic enum overdue overdue;                        // the kind of wait that has lasted long
    struct channel *channel;                             // of an overdue message, which is to be full or empty
    uint32_t wanted;
    int peer;
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
    _Alignas(MEET_LINE_BYTES) char piece[PIECE_BYTES];
};

// Shared by all ranks; the last handle that closes frees it.
struct group {
    struct meet meet;
    struct group *parent;       // of a part: the group that was split; null: none
    struct group *root, *next;  // the world that was opened, or this group itself; and the list of that world's parts
    pthread_mutex_t tree_lock;  // of a root: protects the list, and the waits that are overdue
    int world;
    int *ranks;              // of the root, by rank
    _Atomic int open_count;  // handles
    _Atomic int leaver;      // 1 + the rank that closed first; 0: none
    struct slot *slots;      // two for each rank
    size_t *numbers;         // the slots' arrays
    struct position *positions;
    struct channel **channels;  // [sender x world + receiver], each made by its first message
    struct comm_local *handles;
};

static inline struct slot *slot_of(const struct group *group, int rank, uint64_t sequence)
{
    return &group->slots[2 * rank + (int)(sequence & 1)];
}

static inline bool has_shards_in_send(const struct comm_call *call)
{
    return call->operation == COMM_ALL_TO_ALL || call->operation == COMM_REDUCE_SCATTER;
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

// Called about once a second by a thread that waits, in a collective or for a channel to be full or empty: fails the
// root if it waits in a circle. came: the wait is over.
void comm_local_overdue(struct comm_local *local, struct channel *channel, uint32_t wanted, int peer);
void comm_local_came(struct comm_local *local);

// Writes this rank's slot of the call: its signature, and the data, or where they are.
void comm_local_publish(struct comm_local *local, const struct comm_call *call);

// Moves the data of a call whose slots are published and agree. Accesses the buffers of other ranks.
void comm_local_move(struct comm_local *local, const struct comm_call *call);

#endif
