// SPDX-License-Identifier: Apache-2.0
// The backend for ranks that are MPI processes, on one host or several. MPI carries only bytes; the ranks fold sums in
// canonical order, so their bits equal those of ranks that are threads.
#pragma once

#include "ref/comm/comm_internal.h"
#include "ref/comm/peer_watch.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

enum { COMM_MPI_TEXT_BYTES = 2048 };

enum comm_mpi_notice_kind { NOTICE_FAILED, NOTICE_LEFT, NOTICE_WAITS };

// A notice to every other rank, outside the collectives: the sender has failed, or it leaves at the end. Or to one
// rank: the sender waits for a message from it.
struct comm_mpi_notice {
    uint64_t sequence;  // collectives that the sender has begun
    uint64_t received;  // of one that waits: messages from that rank so far
    uint32_t kind;
    int32_t dead;  // the rank whose death is the failure; -1: none
    char text[COMM_MPI_TEXT_BYTES];
};

// Messages to one rank and from it: the last one sent, which is on its way until its requests are complete; how many so
// far; and what the rank has said about its waiting.
struct comm_mpi_outbox {
    uint64_t sent, received;
    uint64_t waits_sequence, waits_received;  // of its last notice, the sequence + 1; 0: there was none
    struct comm_message_kind kind;
    char *memory;
    size_t room_bytes;
    MPI_Request *requests;
    int request_count;
};

struct comm_mpi {
    struct comm comm;
    struct comm_mpi *parent;  // of a part: the world that was split, which notices the death of ranks; null: none
    struct comm_mpi *next;    // handle of this rank in the same world
    struct comm_mpi_circle *circle;  // of a world that is no part: which ranks wait for which
    uint64_t id;                     // of the communicator, the same on all of its ranks
    int *ranks;                      // of the whole world, by rank
    _Atomic uint64_t thread;         // that used the handle last; 0: none has
    _Atomic uint64_t entered;        // collectives that it had begun then
    MPI_Comm data, control;
    size_t message_bytes;  // largest message, because MPI counts in int
    unsigned char *stage;  // receives other ranks' values of this rank's shard until they are folded
    size_t stage_bytes;
    MPI_Request *requests;              // 4 for each rank
    uint64_t digests[4];                // compare_calls: this rank's digest and its complement, and their minima
    struct comm_mpi_outbox *outboxes;   // by receiver
    uint64_t *pair_counts;              // all-to-all: elements sent to each rank, then received from each
    struct comm_signature *signatures;  // of all ranks, gathered when they differ, then this rank's
    enum comm_operation operation;      // of the current call
    uint64_t *left;  // by rank: 1 + the collectives it had begun when it failed or left; 0: it takes part
    bool *gone;      // by rank: it has left or died
    int left_count, gone_count;
    struct peer_watch watch;  // detects the neighbours' death
    atomic_int dead;          // a rank that has died; -1: none
    atomic_int failed;        // an error code
    pthread_mutex_t lock;     // protects message and notices, which any thread may write
    char message[COMM_MPI_TEXT_BYTES];
    struct comm_mpi_notice sent[2];  // at most one of each kind to all
    struct comm_mpi_notice waits;    // to one rank, on its way until the request is complete
    MPI_Request waits_request;
    MPI_Request *notices;
    int notice_count;
};

// Collective over all processes of `world`. ERR_USAGE: MPI lacks MPI_THREAD_MULTIPLE.
int comm_mpi_open(MPI_Comm world, struct comm **out);

// Waits for sends and receives while watching for the failure of a rank, which cancels them.
int comm_mpi_wait(struct comm_mpi *mpi, MPI_Request requests[], int count);

// Gives up requests that may be in flight.
void comm_mpi_cancel(MPI_Request requests[], int count);

// Waits in the same way for a collective of MPI. It cannot be cancelled and may continue after a failure, so it reads
// and writes only memory of the handle.
int comm_mpi_wait_collective(struct comm_mpi *mpi, MPI_Request *request);

// Pauses between two polls of MPI, of a wait that began at begin_ns (clock_now_ns): the longer, the longer that is ago,
// for the awaited ranks may need this processor, or one of them may be measuring alone. Returns whether it slept.
bool comm_mpi_pause(uint64_t begin_ns);

// Records a failure of this world unless there already is one. Returns the earlier one's code, or ERR_NONE.
int comm_mpi_keep_failure(struct comm_mpi *mpi, int code, const char *message);

// Records a failure and sends it to every other rank.
void comm_mpi_fail_everywhere(struct comm_mpi *mpi, int code, const char *message);

// Returns the recorded failure of this world or of one that it is a part of, if there is one.
int comm_mpi_check(const struct comm_mpi *mpi);

// Returns that failure's message, null if there is none; leaves the thread's last message as it is.
const char *comm_mpi_failure(const struct comm_mpi *mpi);

// Begins to send a notice to every other rank, without waiting.
void comm_mpi_send_notice(struct comm_mpi *mpi, enum comm_mpi_notice_kind kind);

// Receives the notices that have arrived, here and in the worlds that this one is a part of.
void comm_mpi_take_notices(struct comm_mpi *mpi);

// Records the death of a neighbour as a failure, unless it had left before; in the same worlds.
void comm_mpi_find_deaths(struct comm_mpi *mpi);

// Records a failure if a rank left before the current collective.
void comm_mpi_find_leavers(struct comm_mpi *mpi);

// Tells a peer that this rank waits for a message from it, unless an earlier notice is still on its way.
void comm_mpi_send_waits(struct comm_mpi *mpi, int peer);

// Records a failure if a rank that has not begun the current collective waits for a message that this rank has not
// sent: neither can go on.
void comm_mpi_find_waiters(struct comm_mpi *mpi);

// Gives a new handle, of a world (part: null) or of a part, its place among those of the same world; leave frees it.
int comm_mpi_circle_join(struct comm_mpi *mpi, const struct comm_part *part);
void comm_mpi_circle_leave(struct comm_mpi *mpi);

// Notes that this thread uses the handle.
void comm_mpi_used(struct comm_mpi *mpi);

// Called about once a second by a thread that waits in a collective: tells all ranks, and fails the world if it waits
// in a circle. hear: takes in what other ranks of a whole world have said.
void comm_mpi_overdue(struct comm_mpi *mpi);
void comm_mpi_hear(struct comm_mpi *root);

// Begin to send one message to a peer, or to receive one from it; bytes is at most INT_MAX.
int comm_mpi_send(struct comm_mpi *mpi, const void *from, size_t bytes, int peer, MPI_Request *out);
int comm_mpi_receive(struct comm_mpi *mpi, void *to, size_t bytes, int peer, MPI_Request *out);

// Writes this rank's shard of a hierarchical sum to out. Rank r's shard has counts[r] elements at offsets[r] of
// call->send.
int comm_mpi_reduce_groups(struct comm_mpi *mpi, const struct comm_call *call, const size_t counts[],
                           const size_t offsets[], char *out);

// Moves the data of a call that all ranks agree on.
int comm_mpi_move(struct comm_mpi *mpi, const struct comm_call *call);

// Implement comm_send and comm_receive.
int comm_mpi_send_message(struct comm *comm, const struct comm_message *message);
int comm_mpi_receive_message(struct comm *comm, const struct comm_message *message);
void comm_mpi_close_outboxes(struct comm_mpi *mpi);

// Implements comm_exchange.
int comm_mpi_exchange(struct comm *comm, int peer, const void *send, void *recv, size_t bytes);
