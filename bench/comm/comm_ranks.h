// SPDX-License-Identifier: Apache-2.0
// Ranks that repeat a collective, or its baseline, between two barriers, and verify every result. They are threads of
// this process, or processes of a launcher, which then all call these functions with equal settings.
//
// The baseline of processes is MPI's own collective of the same bytes, on devices NCCL's, which add in an order of
// their own. The baseline of threads reads exactly the bytes that the collective must read, from the ranks that hold
// them, and writes exactly the bytes that it must write, once each, without arithmetic and without synchronisation.
// Each of N ranks
//   reduce-scatter   copies one shard of the buffer and reads N-1 shards
//   all-gather       copies N shards
//   all-reduce       copies N shards: reads its shard at N ranks and writes it at N ranks
//   all-to-all       copies N shards
//   broadcast        copies the buffer, except for the root
// On a device the copies are issued one after the other and waited for once. A device cannot read without writing, so
// half of each shard that is only read is copied to a scratch area, which moves as many bytes in its memory; a shard of
// another device is copied in full, because all of it must cross the link.
#pragma once

#include "bench/harness/bench_device.h"
#include "ref/comm/comm.h"

#include <hwloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_MAX = 64 };              // ranks that are threads
enum { COMM_STAGE_COUNT = 1 << 18 };  // elements that are copied from a device at a time, to be verified
enum { COMM_SAMPLED_PIECES = 64 };    // one of as many pieces is verified of a large result
enum { COMM_GRAPH_CALLS = 128 };      // in one graph, at most

enum operation { REDUCE_SCATTER, ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, OPERATION_KINDS };

// The work of a repetition. GRAPH: the library's own, by launches of a graph. The baseline copies by memcpy, by
// non-temporal stores, or after a barrier: every collective synchronises at least once, which takes most of the time of
// a small one.
enum task { TASK_COLLECTIVE, TASK_COPY, TASK_COPY_AROUND_CACHE, TASK_MEET_AND_COPY, TASK_NATIVE, TASK_GRAPH, TASK_END };

struct comm_setting {
    struct comm *comm;                  // of this process if ranks are processes, not owned; null: ranks are threads
    const struct bench_device *device;  // where the buffers are, not owned; null: host memory. Threads enter its
                                        // devices round-robin; a process has entered its own
    enum operation operation;
    enum dtype dtype;  // fp32, bf16 or fp16
    int world;
    size_t asked_bytes;  // the size that `count` was derived from, for the record
    size_t count;        // elements of the full buffer; opening rounds it to a multiple of the ranks, at least one each
    bool uneven;         // rank r's shard is proportional to r + 1; else all are equal
    bool in_place;       // only if comm_ranks_has_in_place
};

// Ranks that are threads, each on a core of its own, as mpirun places processes. Where they are more than the cores,
// the system places them.
struct comm_cores {
    hwloc_topology_t topology;  // null: the system places the threads
    hwloc_cpuset_t allowed;     // to the thread that opened it
};

// Finds the cores of a world; where they cannot be found, the system places the threads. The caller closes *out.
void comm_cores_open(int world, struct comm_cores *out);

// Binds the calling thread to the rank's core. If the system refuses, the thread stays where it may be.
void comm_cores_bind(const struct comm_cores *cores, int rank);

// Returns the calling thread to all allowed processors. Closing a zeroed struct is safe.
void comm_cores_close(struct comm_cores *cores);

struct comm_ranks;

// The barriers that a rank has reached. Two cache lines, because some processors fetch a line's neighbour with it.
struct comm_line {
    _Alignas(128) _Atomic uint64_t meetings;
};

struct comm_rank {
    struct comm_ranks *of;
    struct comm *comm;
    int index;
    char *send, *recv;  // on the device
    char *stage;        // of COMM_STAGE_COUNT elements in host memory, to verify what is on the device; null: no device
    char *area;  // on the device: target of a reduce-scatter's baseline for shards it only reads; null: not needed
    size_t *recv_counts, *recv_offsets;  // by rank, of an all-to-all
    bool has_result;                     // a collective's result is present and not verified
    bool has_native_result;              // it is the library's, which is always out of place, in recv
    bool was_poisoned;                   // recv was, before the result
    size_t sample;                       // which pieces of a large result are verified next
    struct CUgraphExec_st *graph;        // of comm_ranks_open_graph; null: none
    size_t graph_calls;                  // in the graph
    size_t wrong_count;                  // elements, of all repetitions
    pthread_t thread;
};

// One operation on buffers of one size. If ranks are threads, the thread that opens it is rank 0, and the others follow
// it. A different thread that continues as rank 0 must have entered rank 0's device (bench_device_enter).
struct comm_ranks {
    struct comm_setting setting;
    size_t calls;                       // per repetition; may change between repetitions; stays 1 in place
    enum task task;                     // of the current repetition
    bool poisons;                       // recv is poisoned before it
    size_t whole_bytes;                 // of larger results on a device only the poisoned are verified whole
    int started;                        // threads
    int own_count;                      // ranks of this process: all, or one
    size_t *counts, *offsets;           // by rank: of the shards in the full buffer
    struct comm_cores cores;            // of threads
    struct comm_line lines[WORLD_MAX];  // by rank, of threads
    struct comm_rank *ranks;            // of this process
};

const char *comm_ranks_operation_name(enum operation operation);
bool comm_ranks_has_shards(enum operation operation);    // shards can be uneven
bool comm_ranks_has_in_place(enum operation operation);  // comm.h has an in-place form

// Returns whether the operation's results can be verified: no sum, or one that is exact in whichever association. In 16
// bits that is so of up to 256 ranks in bf16, and of 2,048 in fp16 (comm_data.c).
bool comm_ranks_sums_exactly(const struct comm_setting *setting);

// Allocates and fills the buffers and starts the threads. ERR_MEMORY. The caller closes *ranks unless this fails.
int comm_ranks_open(const struct comm_setting *setting, struct comm_ranks *ranks);

// Returns the least bytes that the busiest rank must send or receive, whatever the algorithm.
double comm_ranks_bus_bytes(const struct comm_ranks *ranks);

// Returns the bytes that the ranks need on a device that holds most of them; 0: host memory.
size_t comm_ranks_device_bytes(const struct comm_setting *setting);

// Returns the number of elements that recv has room for.
size_t comm_rank_recv_count(const struct comm_rank *rank);

// Set a rank's buffers (comm_data.c). fill: send, and recv as far as the collective reads it; every sum is exact,
// and in bf16 each of its parts among at most 256 ranks. fill_roughly: send, with numbers whose sum depends on the
// order. poison: all of recv, with a value that no collective writes.
int comm_rank_fill(struct comm_rank *rank);
int comm_rank_fill_roughly(struct comm_rank *rank);
int comm_rank_poison(struct comm_rank *rank);

// Return the collective's result, on the device, and its number of elements.
char *comm_rank_result(const struct comm_rank *rank);
size_t comm_rank_result_count(const struct comm_rank *rank);

// Adds the number of wrong elements of the result to the rank's wrong_count.
int comm_rank_count_wrong(struct comm_rank *rank);

// Runs this rank's part of the current task, `calls` times (comm_task.c).
int comm_rank_run_task(struct comm_rank *rank);

// The baseline of ranks that are threads (comm_task.c). meet: a barrier, in host memory by no more than a
// line that each writes and all read, on a device by a barrier, which waits for its copies.
int comm_rank_meet(const struct comm_rank *rank);

// Prepares a repetition: every rank verifies the last collective's result and, if `poisons`, poisons recv, so that
// elements that the collective does not write show. Of a result above whole_bytes other pieces are verified each time,
// and all if recv was poisoned before it. Poisoning leaves recv in the caches, so it is for untimed repetitions.
int comm_ranks_prepare(struct comm_ranks *ranks, enum task task, bool poisons);

// Captures the library's own collective for TASK_GRAPH, `calls` times or as often as a graph may have it. Ranks must be
// processes with a device, where graphs are possible (bench/comm/native_collective.h).
int comm_ranks_open_graph(struct comm_ranks *ranks);

// Runs one repetition, between two barriers.
int comm_ranks_repeat(struct comm_ranks *ranks);

// If ranks are processes (comm_data.c), adds `own` over all ranks. If they are threads, rank 0 alone calls this, and it
// leaves the value as it is.
int comm_ranks_sum(const struct comm_ranks *ranks, uint64_t own, uint64_t *sum);

// Runs an out-of-place reduction once in canonical order and once by the library, on numbers whose sum depends on the
// order, and counts the elements of all ranks' results whose bits differ (comm_order.c). Ranks must be processes.
int comm_ranks_count_other_bits(struct comm_ranks *ranks, uint64_t *count);

// Verifies the last result, ends the threads and frees the buffers. *wrong_count: wrong elements in all results of all
// ranks; 0 means that the run is verified.
int comm_ranks_close(struct comm_ranks *ranks, size_t *wrong_count);
