// SPDX-License-Identifier: Apache-2.0
// The work of one rank in a repetition: the collective, the library's own collective, or the baseline's copies.
#include "bench/comm/comm_ranks.h"

#include "base/err.h"
#include "bench/comm/native_collective.h"
#include "base/resources.h"
#include "base/processor.h"
#include "ref/comm/comm_copy.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

// The baseline of ranks that are threads: copies of the bytes that the collective must move, and barriers by the least
// that can tell ranks of each other.

static bool is_on_device(const struct comm_rank *rank)
{
    return rank->stage;
}

static void copy(const struct comm_rank *rank, char *to, const char *from, size_t count)
{
    size_t bytes = count * dtype_bytes(rank->of->setting.dtype);
    if (is_on_device(rank))
        bytes_copy(to, from, bytes);  // the barrier that follows returns its error
    else if (rank->of->task == TASK_COPY_AROUND_CACHE)
        copy_around_cache(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

// Ranks without a core of their own let others run between two looks.
static void wait_for(const struct comm_rank *rank, int peer, uint64_t meeting)
{
    const struct comm_ranks *of = rank->of;
    while (atomic_load_explicit(&of->lines[peer].meetings, memory_order_acquire) < meeting) {
        processor_pause();
        if (!of->cores.topology)
            sched_yield();
    }
}

int comm_rank_meet(const struct comm_rank *rank)
{
    if (is_on_device(rank))
        return comm_barrier(rank->comm);
    int world = rank->of->setting.world;
    _Atomic uint64_t *own = &rank->of->lines[rank->index].meetings;
    uint64_t meeting = atomic_load_explicit(own, memory_order_relaxed) + 1;
    atomic_store_explicit(own, meeting, memory_order_release);
    for (int step = 1; step < world; step++)
        wait_for(rank, (rank->index + step) % world, meeting);
    return ERR_NONE;
}

typedef uint64_t __attribute__((may_alias, aligned(1))) word_bits;

// Reads memory, and uses the result so that the compiler keeps the loads.
static void read_here(const void *from, size_t bytes)
{
    const word_bits *words = from;
    uint64_t trace = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        trace |= words[i];
    __asm__ volatile("" : : "r"(trace));
}

// Reads this rank's shard at a peer, without a result.
static void read_only(const struct comm_rank *rank, const struct comm_rank *peer)
{
    const struct comm_ranks *of = rank->of;
    size_t count = of->counts[rank->index];
    const char *from = peer->send + of->offsets[rank->index] * dtype_bytes(of->setting.dtype);
    if (!is_on_device(rank)) {
        read_here(from, count * dtype_bytes(of->setting.dtype));
        return;
    }
    int devices = of->setting.device->count;
    bool same_device = rank->index % devices == peer->index % devices;
    copy(rank, rank->area, from, same_device ? (count + 1) / 2 : count);
}

// Goes shard by shard, beginning with the next rank's, as the collectives do; always from send to recv.
// Issues this rank's copies.
static void copy_same_bytes(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->offsets[rank->index] * dtype_bytes(of->setting.dtype), own_count = of->counts[rank->index];
    if (of->setting.operation == BROADCAST) {
        if (rank->index != 0)
            copy(rank, rank->recv, of->ranks[0].recv, of->setting.count);
        return;
    }
    for (int step = 1; step <= of->setting.world; step++) {
        const struct comm_rank *peer = &of->ranks[(rank->index + step) % of->setting.world];
        if (of->setting.operation == ALL_GATHER)
            copy(rank, rank->recv + of->offsets[peer->index] * dtype_bytes(of->setting.dtype), peer->send,
                 of->counts[peer->index]);
        else if (of->setting.operation == ALL_TO_ALL)
            copy(rank, rank->recv + rank->recv_offsets[peer->index] * dtype_bytes(of->setting.dtype), peer->send + own,
                 own_count);
        else if (of->setting.operation == ALL_REDUCE)
            copy(rank, peer->recv + own, peer->send + own, own_count);
        else if (peer == rank)
            copy(rank, rank->recv, rank->send + own, own_count);
        else
            read_only(rank, peer);
    }
}

// Ends those that go around the cache.
static void copies_end(const struct comm_rank *rank)
{
    if (rank->of->task == TASK_COPY_AROUND_CACHE && !is_on_device(rank))
        copy_around_cache_end();
}

static int collective(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    bool in_place = of->setting.in_place;
    enum dtype dtype = of->setting.dtype;
    char *result = comm_rank_result(rank), *own = result + of->offsets[rank->index] * dtype_bytes(of->setting.dtype);
    switch (of->setting.operation) {
    case REDUCE_SCATTER:
        return comm_reduce_scatter(rank->comm, rank->send, result, of->counts, of->offsets, dtype);
    case ALL_GATHER:
        return comm_all_gather(rank->comm, in_place ? own : rank->send, result, of->counts, of->offsets, dtype);
    case ALL_REDUCE:
        return comm_all_reduce(rank->comm, rank->send, result, of->setting.count, dtype, COMM_SUM);
    case ALL_TO_ALL:
        return comm_all_to_all(rank->comm, rank->send, of->counts, of->offsets, result, rank->recv_counts,
                               rank->recv_offsets, dtype);
    default:
        return comm_broadcast(rank->comm, result, of->setting.count * dtype_bytes(of->setting.dtype), 0);
    }
}

// MPI's own collective, or for buffers on a device NCCL's, always out of place.
static struct comm_call native_call(const struct comm_rank *rank)
{
    static const enum comm_operation operations[OPERATION_KINDS] = {COMM_REDUCE_SCATTER, COMM_ALL_GATHER,
                                                                    COMM_ALL_REDUCE, COMM_ALL_TO_ALL, COMM_BROADCAST};
    const struct comm_ranks *of = rank->of;
    return (struct comm_call){
        .operation = operations[of->setting.operation],
        .dtype = of->setting.dtype,
        .send = rank->send,
        .recv = rank->recv,
        .count = of->setting.count,
        .counts = of->counts,
        .offsets = of->offsets,
        .recv_counts = rank->recv_counts,
        .recv_offsets = rank->recv_offsets,
    };
}

static int native(const struct comm_rank *rank)
{
    const struct comm_call call = native_call(rank);
    return rank->stage ? nccl_collective_run(rank->comm, &call) : mpi_collective_run(rank->comm, &call);
}

int comm_ranks_open_graph(struct comm_ranks *ranks)
{
    struct comm_rank *rank = &ranks->ranks[0];
    const struct comm_call call = native_call(rank);
    assert(ranks->setting.comm && !rank->graph && nccl_graph_is_possible(rank->comm));
    rank->graph_calls = ranks->calls < COMM_GRAPH_CALLS ? ranks->calls : COMM_GRAPH_CALLS;
    return nccl_graph_open(rank->comm, nccl_collective_enqueue, &call, rank->graph_calls, &rank->graph);
}

static int launch_graph(const struct comm_rank *rank)
{
    for (size_t done = 0; done < rank->of->calls; done += rank->graph_calls)
        TRY(nccl_graph_run(rank->comm, rank->graph));
    return ERR_NONE;
}

int comm_rank_run_task(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    if (of->task == TASK_GRAPH)
        TRY(launch_graph(rank));
    for (size_t call = 0; call < of->calls && of->task != TASK_GRAPH; call++) {
        if (of->task == TASK_COLLECTIVE)
            TRY(collective(rank));
        else if (of->task == TASK_NATIVE)
            TRY(native(rank));
        else if (of->task == TASK_MEET_AND_COPY)
            TRY(comm_rank_meet(rank));
        if (of->task != TASK_COLLECTIVE && of->task != TASK_NATIVE)
            copy_same_bytes(rank);
    }
    copies_end(rank);
    rank->has_native_result = of->task == TASK_NATIVE || of->task == TASK_GRAPH;
    rank->has_result = of->task == TASK_COLLECTIVE || rank->has_native_result;
    rank->was_poisoned = of->poisons;
    return ERR_NONE;
}

void comm_cores_open(int world, struct comm_cores *out)
{
    *out = (struct comm_cores){0};
    if (world > resources_processor_count() || resources_topology(&out->topology) != ERR_NONE)
        return;
    out->allowed = hwloc_bitmap_alloc();
    if (!out->allowed || hwloc_get_cpubind(out->topology, out->allowed, HWLOC_CPUBIND_THREAD) != 0 ||
        !resources_core(out->topology, out->allowed, world - 1))
        comm_cores_close(out);
}

void comm_cores_bind(const struct comm_cores *cores, int rank)
{
    hwloc_obj_t core = cores->topology ? resources_core(cores->topology, cores->allowed, rank) : NULL;
    hwloc_cpuset_t set = core ? hwloc_bitmap_dup(core->cpuset) : NULL;
    if (!set)
        return;
    hwloc_bitmap_and(set, set, cores->allowed);
    hwloc_set_cpubind(cores->topology, set, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(set);
}

void comm_cores_close(struct comm_cores *cores)
{
    if (!cores->topology)
        return;
    if (cores->allowed && !hwloc_bitmap_iszero(cores->allowed))
        hwloc_set_cpubind(cores->topology, cores->allowed, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(cores->allowed);
    hwloc_topology_destroy(cores->topology);
    *cores = (struct comm_cores){0};
}
