// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: what they share. A rank publishes its call in a slot, meets the others, and takes
// what it needs straight from their buffers; a second meeting ends the call before any buffer may change. Small
// messages are copied into the slot instead, and need no second meeting.
//
// A rank has two slots and uses them in turn. It writes a slot again two calls later, and by then the call between
// has met: everybody is done with reading it.
#ifndef ZG_COMM_LOCAL_H
#define ZG_COMM_LOCAL_H

#include "ref/comm/comm_backend.h"
#include "ref/comm/comm_meet.h"

enum {
    SMALL_BYTES = 8192,  // what a slot takes in
    PIECE_BYTES = 4096,  // of a reduction
};

struct slot {
    struct comm_signature signature;
    const char *send;  // the caller's, or small
    char *recv;
    bool direct;     // send is the caller's: others read it until the second meeting
    size_t *counts;  // reduce-scatter, all-to-all: what is for each rank, and where it lies in send
    size_t *offsets;
    size_t *recv_counts;  // all-to-all
    _Alignas(MEET_LINE_BYTES) char small[SMALL_BYTES];
};

struct position {
    _Alignas(MEET_LINE_BYTES) _Atomic uint64_t entered;  // the sequence number of the rank's last call
};

struct comm_local {
    struct comm comm;
    struct group *group;
    int spins;  // of meet_wait
    _Alignas(MEET_LINE_BYTES) char piece[PIECE_BYTES];
};

// Freed by the last handle that closes.
struct group {
    struct meet meet;
    int world;
    _Atomic int open_count;  // handles
    _Atomic int leaver;      // 1 + the rank that closed first; 0: none
    struct slot *slots;      // two a rank
    size_t *numbers;         // the slots' arrays
    struct position *positions;
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

// Carries out a call whose slots are published and agree. It touches the buffers of other ranks.
void comm_local_move(struct comm_local *local, const struct comm_call *call);

#endif
