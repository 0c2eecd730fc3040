// SPDX-License-Identifier: Apache-2.0
// Ranks that are MPI processes, on one host or many: MPI carries bytes between them, the sums are the same folds in
// canonical order as everywhere, so the bits are those of ranks that are threads.
#ifndef ZG_COMM_MPI_H
#define ZG_COMM_MPI_H

#include "ref/comm/comm_backend.h"
#include "ref/comm/peer_watch.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

enum { COMM_MPI_TEXT_BYTES = 2048 };

// What a rank tells every other one outside the collectives: that something has failed, and at the end that it leaves.
struct comm_mpi_notice {
    uint64_t sequence;  // collectives it has begun
    uint32_t kind;
    int32_t dead;  // the rank that has died, if that is what happened; else -1
    char text[COMM_MPI_TEXT_BYTES];
};

struct comm_mpi {
    struct comm comm;
    MPI_Comm data, control;
    size_t message_bytes;  // of the largest message: MPI counts in int
    unsigned char *stage;  // what others send of this rank's shard until it is folded
    size_t stage_bytes;
    MPI_Request *requests;              // 4 a rank
    uint64_t digests[4];                // in an agreement: this rank's two, and the least of all
    uint64_t *pair_counts;              // in an all-to-all: what this rank sends to each, and what each sends
    struct comm_signature *signatures;  // of all, when they differ
    enum comm_operation operation;      // the one under way
    uint64_t *left;  // by rank: 1 + the collectives it had begun when it failed or left; 0: it takes part
    bool *gone;      // by rank: it has left, or died
    int left_count, gone_count;
    struct peer_watch watch;  // to the neighbours, to see them die
    atomic_int dead;          // a rank that will not answer any more; -1: none
    atomic_int failed;        // an error code
    pthread_mutex_t lock;     // of what follows, which any thread may write
    char message[COMM_MPI_TEXT_BYTES];
    struct comm_mpi_notice sent[2];  // at most one of each kind
    MPI_Request *notices;
    int notice_count;
    unsigned char *native_memory;  // of native sums: what is sent, the sum, and the canonical one
    size_t native_bytes;
    int *native_counts;
    MPI_Op native_operations[2];  // bf16, fp16
};

// All processes of `world`, whose MPI has MPI_THREAD_MULTIPLE, call it together.
int comm_mpi_open(MPI_Comm world, struct comm **out);

// Waits for sends and receives while watching for the failure of a rank, upon which they are cancelled.
int comm_mpi_wait(struct comm_mpi *mpi, MPI_Request requests[], int count);

// The same of one of MPI's own collectives, which cannot be cancelled: after a failure it may be under way still, so
// what it reads and writes lies in the handle.
int comm_mpi_wait_collective(struct comm_mpi *mpi, MPI_Request *request);

// An MPI call's result as an error of this program.
int comm_mpi_code(int mpi_result, const char *call);

// Begins to send to a peer, or to receive from it, as much as one message can have.
int comm_mpi_send(struct comm_mpi *mpi, const void *from, size_t bytes, int peer, MPI_Request *out);
int comm_mpi_receive(struct comm_mpi *mpi, void *to, size_t bytes, int peer, MPI_Request *out);

// Of a hierarchical sum, this rank's shard into out: the shards lie in call->send, each with counts[] elements.
int comm_mpi_reduce_groups(struct comm_mpi *mpi, const struct comm_call *call, const size_t counts[],
                           const size_t offsets[], char *out);

// Carries out a call that all ranks have agreed about.
int comm_mpi_move(struct comm_mpi *mpi, const struct comm_call *call);

// comm_exchange, in messages of its own between the two.
int comm_mpi_exchange(struct comm *comm, int peer, const void *send, void *recv, size_t bytes);

// Carries out a sum by MPI's own, and the canonical one beside it to compare.
int comm_mpi_native(struct comm_mpi *mpi, const struct comm_call *call);
void comm_mpi_native_close(struct comm_mpi *mpi);

#endif
