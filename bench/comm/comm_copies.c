// SPDX-License-Identifier: Apache-2.0
// The baseline of ranks that are threads: copies of the bytes that the collective must move, and barriers by the least
// that can tell ranks of each other.
#include "bench/comm/comm_ranks.h"

#include "base/err.h"
#include "base/processor.h"
#include "ref/comm/comm_copy.h"

#include <sched.h>
#include <string.h>

static bool is_on_device(const struct comm_rank *rank)
{
    return rank->stage;
}

static void copy(const struct comm_rank *rank, float *to, const float *from, size_t count)
{
    size_t bytes = count * sizeof *to;
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
    const float *from = peer->send + of->offsets[rank->index];
    if (!is_on_device(rank)) {
        read_here(from, count * sizeof *from);
        return;
    }
    int devices = of->setting.device->count;
    bool same_device = rank->index % devices == peer->index % devices;
    copy(rank, rank->area, from, same_device ? (count + 1) / 2 : count);
}

// Goes shard by shard, beginning with the next rank's, as the collectives do; always from send to recv.
void comm_rank_copy_same_bytes(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->offsets[rank->index], own_count = of->counts[rank->index];
    if (of->setting.operation == BROADCAST) {
        if (rank->index != 0)
            copy(rank, rank->recv, of->ranks[0].recv, of->setting.count);
        return;
    }
    for (int step = 1; step <= of->setting.world; step++) {
        const struct comm_rank *peer = &of->ranks[(rank->index + step) % of->setting.world];
        if (of->setting.operation == ALL_GATHER)
            copy(rank, rank->recv + of->offsets[peer->index], peer->send, of->counts[peer->index]);
        else if (of->setting.operation == ALL_TO_ALL)
            copy(rank, rank->recv + rank->recv_offsets[peer->index], peer->send + own, own_count);
        else if (of->setting.operation == ALL_REDUCE)
            copy(rank, peer->recv + own, peer->send + own, own_count);
        else if (peer == rank)
            copy(rank, rank->recv, rank->send + own, own_count);
        else
            read_only(rank, peer);
    }
}

void comm_rank_copies_end(const struct comm_rank *rank)
{
    if (rank->of->task == TASK_COPY_AROUND_CACHE && !is_on_device(rank))
        copy_around_cache_end();
}
