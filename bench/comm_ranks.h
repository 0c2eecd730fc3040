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

// What the ranks do in a repetition. The yardstick's copies are memcpy's, or go around the caches; or each of them
// follows a barrier, for no collective can do without meeting once, which is most of what a small one takes.
enum task { TASK_COLLECTIVE, TASK_COPY, TASK_COPY_AROUND_CACHE, TASK_MEET_AND_COPY, TASK_END };

// How ranks speak to each other: opens comms[world], for ranks that are threads.
struct transport {
    const char *name;
    int (*open)(int world, struct comm *comms[]);
};

struct comm_setting {
    const struct transport *transport;
    enum operation operation;
    int world;
    size_t count;   // elements of the whole buffer; made a multiple of the ranks, and at least one for each
    bool uneven;    // rank r's share is in proportion to r + 1; else all are equal
    bool in_place;  // where comm_ranks_has_in_place
};

struct comm_ranks;

struct comm_rank {
    struct comm_ranks *of;
    struct comm *comm;
    int index;
    float *send, *recv;
    size_t recv_counts[WORLD_MAX], recv_offsets[WORLD_MAX];  // of an all-to-all
    bool has_result;     // what a collective left is there, and not verified yet
    size_t wrong_count;  // elements, of all repetitions
    pthread_t thread;
};

// One operation on buffers of one size. The thread that opens it is rank 0; the others follow it.
struct comm_ranks {
    struct comm_setting setting;
    size_t calls;    // in a repetition; may change between repetitions. In place it stays 1
    enum task task;  // of the present repetition
    bool poisons;    // before it
    int started;     // threads
    size_t counts[WORLD_MAX], offsets[WORLD_MAX];  // of the shares in the whole buffer
    struct comm_rank ranks[WORLD_MAX];
};

const char *comm_ranks_operation_name(enum operation operation);
bool comm_ranks_has_shares(enum operation operation);    // which can be uneven
bool comm_ranks_has_in_place(enum operation operation);  // comm.h says how

int comm_ranks_open(const struct comm_setting *setting, struct comm_ranks *ranks);

// Bytes that the busiest rank must send or receive at least, whatever the algorithm.
double comm_ranks_bus_bytes(const struct comm_ranks *ranks);

// Elements that a rank has room for in recv.
size_t comm_ranks_recv_count(const struct comm_rank *rank);

// What a rank begins with (comm_data.c): all of send, and what a collective finds in recv. And where the result of one
// is, and how many of its elements are wrong.
void comm_rank_fill(struct comm_rank *rank);
float *comm_rank_result(const struct comm_rank *rank);
size_t comm_rank_wrong(const struct comm_rank *rank);

// Before a repetition: every rank verifies what the last collective left in recv. Poisoned, recv shows what a
// collective does not write; but it is then in the caches as no program would leave it.
int comm_ranks_prepare(struct comm_ranks *ranks, enum task task, bool poisons);

// From a barrier to a barrier.
int comm_ranks_repeat(struct comm_ranks *ranks);

// Verifies the last result and ends the threads. The number of wrong elements in all results; 0 is a verified run.
int comm_ranks_close(struct comm_ranks *ranks, size_t *wrong_count);

#endif
