// SPDX-License-Identifier: Apache-2.0
// Ranks that repeat a collective, or its baseline, from a barrier to a barrier, and verify every result. They are
// threads of this process, or processes of a launcher; then each of them calls all that follows, with equal settings.
//
// The baseline of processes is MPI's own collective of the same bytes, or on devices NCCL's, which adds up in an order
// of its own. That of threads reads exactly the bytes that the collective must read, at the ranks that have them, and
// writes exactly those that it must write, once each, without arithmetic and without any agreement between ranks. With
// N ranks, each of them does:
//   reduce-scatter   one shard of the buffer copied, N-1 shards read
//   all-gather       N shards copied
//   all-reduce       N shards copied: its shard is read at N ranks and written at N ranks
//   all-to-all       N shards copied
//   broadcast        the buffer copied, by all but the root
// On a device the copies are begun one after the other and waited for once. It reads no more than it writes: of a shard
// that lies on the same device and is only read, one half is copied to an area that nobody looks at, which moves as
// many bytes in its memory; a shard of another device comes there in whole, as it must cross the link.
#ifndef ZG_COMM_RANKS_H
#define ZG_COMM_RANKS_H

#include "bench/harness/bench_device.h"
#include "ref/comm/comm.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_MAX = 64 };              // ranks that are threads
enum { COMM_STAGE_COUNT = 1 << 18 };  // elements that come from a device at a time to be looked at

enum operation { REDUCE_SCATTER, ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, OPERATION_KINDS };

// What the ranks do in a repetition. The baseline's copies are memcpy's, or go around the caches; or each of them
// follows a barrier, for no collective can do without meeting once, which is most of what a small one takes.
enum task { TASK_COLLECTIVE, TASK_COPY, TASK_COPY_AROUND_CACHE, TASK_MEET_AND_COPY, TASK_NATIVE, TASK_END };

struct comm_setting {
    struct comm *comm;                  // of this process, where ranks are processes, not owned; null: they are threads
    const struct bench_device *device;  // where the buffers are, not owned; null: this processor. Ranks that are
                                        // threads enter its devices in turn; a process has entered its own
    enum operation operation;
    int world;
    size_t asked_bytes;  // what `count` was made of, for results alone
    size_t count;        // elements of the whole buffer; made a multiple of the ranks, and at least one for each
    bool uneven;         // rank r's shard is in proportion to r + 1; else all are equal
    bool in_place;       // where comm_ranks_has_in_place
};

struct comm_ranks;

struct comm_rank {
    struct comm_ranks *of;
    struct comm *comm;
    int index;
    float *send, *recv;  // on the device
    float *stage;        // here, of COMM_STAGE_COUNT, between the device and whoever looks; null: no device
    float *area;         // on the device, for what the baseline of a reduce-scatter only reads; null: not needed
    size_t *recv_counts, *recv_offsets;  // by rank, of an all-to-all
    bool has_result;                     // what a collective left is there, and not verified yet
    bool has_native_result;              // it is the library's, which is in recv whatever the setting
    size_t wrong_count;                  // elements, of all repetitions
    pthread_t thread;
};

// One operation on buffers of one size. Of threads the one that opens it is rank 0, and the others follow it. Another
// thread that takes its part has entered the device of rank 0 (bench_device_enter).
struct comm_ranks {
    struct comm_setting setting;
    size_t calls;              // in a repetition; may change between repetitions. In place it stays 1
    enum task task;            // of the present repetition
    bool poisons;              // before it
    int started;               // threads
    int own_count;             // ranks of this process: all, or one
    size_t *counts, *offsets;  // by rank: of the shards in the whole buffer
    struct comm_rank *ranks;   // of this process
};

const char *comm_ranks_operation_name(enum operation operation);
bool comm_ranks_has_shards(enum operation operation);    // which can be uneven
bool comm_ranks_has_in_place(enum operation operation);  // comm.h says how

int comm_ranks_open(const struct comm_setting *setting, struct comm_ranks *ranks);

// Bytes that the busiest rank must send or receive at least, whatever the algorithm.
double comm_ranks_bus_bytes(const struct comm_ranks *ranks);

// Elements that a rank has room for in recv.
size_t comm_ranks_recv_count(const struct comm_rank *rank);

// What a rank begins with (comm_data.c): all of send, and what a collective finds in recv. Filled roughly, send has
// numbers whose sum depends on the order. Poisoned, all of recv has a value that no collective leaves.
int comm_rank_fill(struct comm_rank *rank);
int comm_rank_fill_roughly(struct comm_rank *rank);
int comm_rank_poison(struct comm_rank *rank);

// Where the result of a collective is, on the device, and how many elements it has; and adds those of them that are
// wrong to the rank's wrong_count.
float *comm_rank_result(const struct comm_rank *rank);
size_t comm_rank_result_count(const struct comm_rank *rank);
int comm_rank_count_wrong(struct comm_rank *rank);

// This rank's part of the baseline, as the present task says (comm_copies.c); and the end of what the task has begun.
void comm_rank_copy_same_bytes(const struct comm_rank *rank);
int comm_rank_copies_end(const struct comm_rank *rank);

// Before a repetition: every rank verifies what the last collective left in recv. Poisoned, recv shows what a
// collective does not write; but it is then in the caches as no program would leave it.
int comm_ranks_prepare(struct comm_ranks *ranks, enum task task, bool poisons);

// From a barrier to a barrier.
int comm_ranks_repeat(struct comm_ranks *ranks);

// Of processes (comm_order.c): what rank 0 holds in *value becomes everybody's; and the sum of what each has. Of
// threads, which one thread speaks for, both are the value itself.
int comm_ranks_agree(const struct comm_ranks *ranks, uint64_t *value);
int comm_ranks_sum(const struct comm_ranks *ranks, uint64_t own, uint64_t *sum);

// Of processes: a reduction out of place, once in canonical order and once by the library, of numbers whose sum depends
// on the order: how many elements of all ranks' results differ in their bits.
int comm_ranks_count_other_bits(struct comm_ranks *ranks, uint64_t *count);

// Verifies the last result and ends the threads. The number of wrong elements in all results of all ranks; 0 is a
// verified run.
int comm_ranks_close(struct comm_ranks *ranks, size_t *wrong_count);

#endif
