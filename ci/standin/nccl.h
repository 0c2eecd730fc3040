// SPDX-License-Identifier: Apache-2.0
// NCCL for hosts without a GPU, for tests: communicators of threads and processes of one host, whose work runs on the
// streams of the stand-in for CUDA (standin.h), when somebody waits. What NCCL leaves undefined ends the process:
//
//     a call in a state of the communicator that does not allow it, an operation outside a group
//     memory that is not the device's from its first to its last byte, or that another operation of the group writes
//     a stream that was destroyed, or is another device's
//     ranks whose operations differ: every rank names both of them and their place in the communicator's order
//     a wait on a stream for a rank that has ended
//
// An operation waits until every rank that takes part has enqueued it, and its bytes are read when the stream of the
// rank that sends them runs. A group is enqueued by the second ncclCommGetAsyncError behind its end. Reductions are
// made in a random association. The environment changes what there is:
//
//     ZG_STANDIN_NCCL=KIND:N:RANK  what a communicator's rank does in its call number N, of ncclCommInitRankConfig, the
//                                  operations, the ends of groups and ncclCommFinalize: "fail"; "hang", which never
//                                  completes; "kill" its process; or "lose" the element in the middle of what
//                                  an operation brings, which stays as it was
//     ZG_STANDIN_SEED=N            other sums
#pragma once

#include "ci/standin/standin.h"

#include <nccl.h>

#include <stdatomic.h>
#include <sys/types.h>

enum { NCCL_E4M3 = 10 };  // of 8-bit floating point, which headers before 2.24 lack; the other is the next
enum { RANKS_MAX = 16, OPERATIONS_MAX = 4 * RANKS_MAX, POSTS = 256 };

enum kind { SEND, RECEIVE, BROADCAST, ALL_GATHER, REDUCE, REDUCE_SCATTER, ALL_REDUCE };

// The ranks of an operation must agree on these. peer: or the root; -1: neither.
struct call {
    enum kind kind;
    ncclDataType_t type;
    size_t count;
    int peer;
    ncclRedOp_t by;  // of reductions; else ncclSum
};

// An operation that its rank has enqueued, for the others to see.
struct post {
    atomic_ullong number;  // 1 + its index in its channel; 0: there was none
    struct call call;
    atomic_bool is_given;  // its bytes are in the file
    off_t offset;
    size_t bytes;
    atomic_int left;  // ranks that need it still
};

// The channels of a rank: its collectives, and what it sends to each rank and receives from it. Operations of a channel
// are compared in order.
struct seat {
    atomic_bool has_joined, has_finalized;
    int device;
    struct post collectives[POSTS], sends[RANKS_MAX][POSTS], receives[RANKS_MAX][POSTS];
};

// At the beginning of a file in memory that has no name, so that nothing stays of it; the bytes of operations follow.
// Each rank has opened it, and keeps its byte locked as long as it takes part and its process lives.
struct board {
    atomic_uint changes;  // others wait for this number to change
    struct seat seats[RANKS_MAX];
};

enum state { CONNECTING, READY, ENQUEUING, FINALIZING, FINALIZED, DEAD, STATE_COUNT };

// Freed never, so that the use of one that has ended is found.
struct ncclComm {
    enum state state;
    int rank, world, device;
    int file, id_file;  // id_file: of the process that made the identifier, until all have joined; -1
    struct board *board;
    unsigned long long collectives, sends[RANKS_MAX], receives[RANKS_MAX];  // operations so far
    off_t given_bytes;
    ncclResult_t error;
    bool hangs, stalls;      // the state, work on streams
    bool loses;              // an element, by the call that was counted last
    bool is_captured;        // operations are in a graph
    atomic_bool is_aborted;  // work on streams ends without an effect
    atomic_int group_count;  // on streams
    unsigned call_count, poll_count;
    struct group *ended;  // and not enqueued yet
    struct ncclComm *older;
};

struct operation {
    struct call call;
    const char *from;
    char *to;
    size_t from_bytes, to_bytes;  // that this rank reads and writes
    unsigned long long index;     // in its channel
    bool loses;                   // an element
};

struct group {
    struct ncclComm *comm;
    cudaStream_t stream;
    bool is_given;
    int count;
    struct operation operations[OPERATIONS_MAX];
};

// Ends the process unless the communicator is in one of the states, bits of a mask.
void nccl_expect_state(const struct ncclComm *comm, const char *call, unsigned states);

// Counts a call; where ZG_STANDIN_NCCL names it, its rank fails, is killed, has *hangs set, or loses set. Returns the
// error.
ncclResult_t nccl_count_call(struct ncclComm *comm, bool *hangs);

// Opens the board that ncclGetUniqueId made and takes the rank's seat. Returns false where that process has ended.
bool nccl_board_join(struct ncclComm *comm, ncclUniqueId id);

// Gives the seat up; what the others have not taken yet stays.
void nccl_board_leave(struct ncclComm *comm);

// Returns whether every rank has done what `done` reads.
bool nccl_board_all(const struct ncclComm *comm, bool (*done)(const struct seat *seat));

// Returns a rank that has joined and ended without the others; -1: none.
int nccl_board_gone(const struct ncclComm *comm);

// Tells all ranks that something has changed; waits some milliseconds for a change of `seen`.
void nccl_board_change(struct board *board);
void nccl_board_wait(struct board *board, unsigned seen);

// Posts the operations of a group and enqueues it on its stream.
void nccl_work_enqueue(struct group *group);

// Sets out, of bytes, to what the call makes of every rank's values, which lie one rank after the other in terms.
void nccl_reduce(const struct call *call, int world, uint64_t index, const char *terms, char *out, size_t bytes);

size_t nccl_type_bytes(ncclDataType_t type);
const char *nccl_kind_name(enum kind kind);
