// SPDX-License-Identifier: Apache-2.0
// Ranks as threads that repeat a collective, or its yardstick, from a barrier to a barrier, and verify every result.
//
// The yardstick reads exactly the bytes that the collective must read, at the ranks that have them, and writes exactly
// those that it must write, once each, without arithmetic and without any agreement between ranks. With N ranks, each
// of them does:
//   reduce-scatter   one share of the buffer copied, N-1 shares read
//   all-gather       N shares copied
//   all-reduce       N shares copied: its share is read at N ranks and written at N ranks
//   all-to-all       N shares copied
//   broadcast        the buffer copied, by all but the root
#ifndef ZG_COMM_RANKS_H
#define ZG_COMM_RANKS_H

#include "comm.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { WORLD_MAX = 64 };

enum operation { REDUCE_SCATTER, ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, OPERATION_KINDS };

// What the ranks do in a repetition. The yardstick's copies are memcpy's, or go around the caches.
enum task { TASK_COLLECTIVE, TASK_COPY, TASK_COPY_AROUND_CACHE, TASK_END };

struct comm_ranks;

struct comm_rank {
    struct comm_ranks *of;
    struct comm *comm;
    int index;
    float *send, *recv;
    bool has_result;     // recv is what a collective left there
    size_t wrong_count;  // elements, of all repetitions
    pthread_t thread;
};

// One operation on buffers of one size. The thread that opens it is rank 0; the others follow it.
struct comm_ranks {
    enum operation operation;
    int world;
    size_t count, share_count;  // elements of the whole buffer, and of each rank's share
    size_t calls;               // in a repetition
    enum task task;             // of the present repetition
    bool poisons;               // before it
    int started;                // threads
    size_t counts[WORLD_MAX], offsets[WORLD_MAX];
    struct comm_rank ranks[WORLD_MAX];
};

const char *comm_ranks_operation_name(enum operation operation);

// count is rounded down to equal shares, and is at least one element a rank.
int comm_ranks_open(struct comm_ranks *ranks, enum operation operation, int world, size_t count, size_t calls);

// Before a repetition: every rank verifies what the last collective left in recv. Poisoned, recv shows what a
// collective does not write; but it is then in the caches as no program would leave it.
int comm_ranks_prepare(struct comm_ranks *ranks, enum task task, bool poisons);

// From a barrier to a barrier.
int comm_ranks_repeat(struct comm_ranks *ranks);

// Verifies the last result and ends the threads. The number of wrong elements in all results; 0 is a verified run.
int comm_ranks_close(struct comm_ranks *ranks, size_t *wrong_count);

#endif
