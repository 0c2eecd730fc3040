// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_ranks.h"

#include "bench/comm/native_collective.h"
#include "bench/harness/bench.h"
#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

// The host compares about a GiB a second.
enum { WHOLE_BYTES = 256 << 20 };

const char *comm_ranks_operation_name(enum operation operation)
{
    static const char *const names[OPERATION_KINDS] = {"reduce-scatter", "all-gather", "all-reduce", "all-to-all",
                                                       "broadcast"};
    return names[operation];
}

bool comm_ranks_has_shards(enum operation operation)
{
    return operation == REDUCE_SCATTER || operation == ALL_GATHER || operation == ALL_TO_ALL;
}

bool comm_ranks_has_in_place(enum operation operation)
{
    return operation == REDUCE_SCATTER || operation == ALL_GATHER || operation == ALL_REDUCE;
}

double comm_ranks_bus_bytes(const struct comm_ranks *ranks)
{
    size_t whole = ranks->setting.count, most = 0, world = (size_t)ranks->setting.world;
    for (size_t rank = 0; rank < world; rank++) {
        // A rank sends all but its own shard; in an all-to-all it may receive more than it sends.
        size_t bytes = whole - ranks->counts[rank], received = (world - 1) * ranks->counts[rank];
        if (ranks->setting.operation == ALL_TO_ALL && received > bytes)
            bytes = received;
        most = bytes > most ? bytes : most;
    }
    if (ranks->setting.operation == BROADCAST)
        return (double)(whole * dtype_bytes(ranks->setting.dtype));
    return (double)(most * dtype_bytes(ranks->setting.dtype)) * (ranks->setting.operation == ALL_REDUCE ? 2 : 1);
}

size_t comm_ranks_device_bytes(const struct comm_setting *setting)
{
    if (!setting->device)
        return 0;
    size_t world = (size_t)setting->world, devices = (size_t)setting->device->count;
    size_t ranks = setting->comm ? 1 : (world + devices - 1) / devices;
    size_t area = setting->operation == REDUCE_SCATTER && !setting->comm ? setting->count / world : 0;
    // The last of uneven shards is at most twice an equal one.
    size_t recv = setting->operation == ALL_TO_ALL && setting->uneven ? 2 * setting->count : setting->count;
    return ranks * (setting->count + recv + area) * dtype_bytes(setting->dtype);
}

static int rank_prepare(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    if (rank->has_result)
        TRY(comm_rank_count_wrong(rank));
    rank->has_result = rank->has_native_result = false;
    if (of->poisons)
        TRY(comm_rank_poison(rank));
    // A collective in place overwrites its input.
    return of->poisons || of->setting.in_place ? comm_rank_fill(rank) : ERR_NONE;
}

static int rank_repeat(struct comm_rank *rank)
{
    TRY(comm_barrier(rank->comm));
    TRY(comm_rank_run_task(rank));
    return comm_barrier(rank->comm);
}

static const struct bench_device *device_of(const struct comm_ranks *ranks)
{
    static const struct bench_device processor = {0};
    return ranks->setting.device ? ranks->setting.device : &processor;
}

static int buffer_open(const struct comm_rank *rank, size_t count, char **out)
{
    void *memory;
    TRY(bench_device_alloc(device_of(rank->of), count * dtype_bytes(rank->of->setting.dtype), &memory));
    *out = memory;
    return ERR_NONE;
}

// Allocates the stage and the area, which only ranks on a device need. The area holds a shard and one more element, so
// that an empty shard has an address, too.
static int stage_open(struct comm_rank *rank)
{
    void *stage;
    if (!device_of(rank->of)->accelerator)
        return ERR_NONE;
    TRY(bench_device_alloc_host(device_of(rank->of), COMM_STAGE_COUNT * dtype_bytes(rank->of->setting.dtype), &stage));
    rank->stage = stage;
    return rank->of->setting.operation == REDUCE_SCATTER && !rank->of->setting.comm
               ? buffer_open(rank, rank->of->counts[rank->index] + 1, &rank->area)
               : ERR_NONE;
}

// Each rank touches its own memory first, on its own core. Threads enter their device here; processes have entered
// theirs.
static int rank_open(struct comm_rank *rank)
{
    comm_cores_bind(&rank->of->cores, rank->index);
    if (!rank->of->setting.comm)
        TRY(bench_device_enter(device_of(rank->of), rank->index));
    int code = buffer_open(rank, rank->of->setting.count, &rank->send);
    if (code == ERR_NONE)
        code = buffer_open(rank, comm_rank_recv_count(rank), &rank->recv);
    if (code == ERR_NONE)
        code = stage_open(rank);
    if (code != ERR_NONE)
        return err_prefix(code, "rank %d's buffers", rank->index);
    TRY(comm_rank_fill(rank));
    return comm_barrier(rank->comm);
}

static void rank_free(struct comm_rank *rank)
{
    const struct bench_device *device = device_of(rank->of);
    const struct comm_setting *setting = &rank->of->setting;
    nccl_graph_close(rank->graph);
    bench_device_free(device, rank->send, setting->count * dtype_bytes(setting->dtype));
    bench_device_free(device, rank->recv, comm_rank_recv_count(rank) * dtype_bytes(setting->dtype));
    bench_device_free(device, rank->area, (rank->of->counts[rank->index] + 1) * dtype_bytes(setting->dtype));
    bench_device_free_host(device, rank->stage, COMM_STAGE_COUNT * dtype_bytes(setting->dtype));
}

static int rank_follow(struct comm_rank *rank)
{
    TRY(rank_open(rank));
    for (;;) {
        TRY(comm_barrier(rank->comm));
        TRY(rank_prepare(rank));
        if (rank->of->task == TASK_END)
            return ERR_NONE;
        TRY(comm_barrier(rank->comm));
        TRY(rank_repeat(rank));
    }
}

// An error of one rank fails all; rank 0 returns its message.
static void *rank_thread(void *argument)
{
    struct comm_rank *rank = argument;
    if (rank_follow(rank) != ERR_NONE)
        comm_abort(rank->comm, err_message());
    return NULL;
}

static int threads_start(struct comm_ranks *ranks)
{
    for (ranks->started = 1; ranks->started < ranks->own_count; ranks->started++) {
        struct comm_rank *rank = &ranks->ranks[ranks->started];
        if (pthread_create(&rank->thread, NULL, rank_thread, rank) != 0)
            return err_set(ERR_MEMORY, "no thread for rank %d", rank->index);
    }
    return rank_open(&ranks->ranks[0]);
}

static void ranks_free(struct comm_ranks *ranks)
{
    comm_cores_close(&ranks->cores);
    for (int i = 0; ranks->ranks && i < ranks->own_count; i++)
        free(ranks->ranks[i].recv_counts);
    free(ranks->ranks);
    free(ranks->counts);
    ranks->ranks = NULL;
    ranks->counts = NULL;
}

static void ranks_end(struct comm_ranks *ranks)
{
    for (int i = 1; i < ranks->started; i++)
        pthread_join(ranks->ranks[i].thread, NULL);
    for (int i = 0; i < ranks->own_count; i++) {
        rank_free(&ranks->ranks[i]);
        if (!ranks->setting.comm)
            comm_close(ranks->ranks[i].comm);
    }
    ranks_free(ranks);
}

// Cuts equal shards, or shards proportional to 1, 2, 3, ...; the last gets the remainder.
static void cut_shards(struct comm_ranks *ranks)
{
    size_t world = (size_t)ranks->setting.world, whole = ranks->setting.count, offset = 0;
    for (size_t rank = 0; rank < world; rank++) {
        size_t count = ranks->setting.uneven ? whole * 2 * (rank + 1) / (world * (world + 1)) : whole / world;
        ranks->counts[rank] = rank + 1 == world ? whole - offset : count;
        ranks->offsets[rank] = offset;
        offset += ranks->counts[rank];
    }
}

static int rank_init(struct comm_ranks *ranks, int own, struct comm *comm)
{
    size_t world = (size_t)ranks->setting.world;
    struct comm_rank *rank = &ranks->ranks[own];
    *rank = (struct comm_rank){.of = ranks, .comm = comm, .index = comm_rank(comm)};
    rank->recv_counts = calloc(2 * world, sizeof *rank->recv_counts);
    if (!rank->recv_counts)
        return err_set(ERR_MEMORY, "no memory for the shards of %zu ranks", world);
    rank->recv_offsets = rank->recv_counts + world;
    for (size_t peer = 0; peer < world; peer++) {
        rank->recv_counts[peer] = ranks->counts[rank->index];
        rank->recv_offsets[peer] = peer * ranks->counts[rank->index];
    }
    return ERR_NONE;
}

// Initialises the ranks of this process, without their buffers.
static int ranks_init(struct comm_ranks *ranks)
{
    struct comm *comms[WORLD_MAX] = {ranks->setting.comm};
    size_t world = (size_t)ranks->setting.world;
    ranks->own_count = ranks->setting.comm ? 1 : ranks->setting.world;
    ranks->counts = calloc(2 * world, sizeof *ranks->counts);
    ranks->ranks = calloc((size_t)ranks->own_count, sizeof *ranks->ranks);
    if (!ranks->counts || !ranks->ranks)
        return err_set(ERR_MEMORY, "no memory for %zu ranks", world);
    ranks->offsets = ranks->counts + world;
    cut_shards(ranks);
    if (!ranks->setting.comm)
        TRY(comm_local_open(ranks->setting.world, comms));
    int code = ERR_NONE;
    for (int own = 0; own < ranks->own_count && code == ERR_NONE; own++)
        code = rank_init(ranks, own, comms[own]);
    for (int own = 0; own < ranks->own_count && code != ERR_NONE && !ranks->setting.comm; own++)
        comm_close(comms[own]);
    return code;
}

int comm_ranks_open(const struct comm_setting *setting, struct comm_ranks *ranks)
{
    assert(setting->world >= 1 && (setting->comm || setting->world <= WORLD_MAX));
    assert(!setting->comm || setting->world == comm_world(setting->comm));
    assert(!setting->uneven || comm_ranks_has_shards(setting->operation));
    assert(!setting->in_place || comm_ranks_has_in_place(setting->operation));
    size_t world = (size_t)setting->world, shard_elements = setting->count / world > 0 ? setting->count / world : 1;
    *ranks = (struct comm_ranks){.setting = *setting, .calls = 1, .whole_bytes = WHOLE_BYTES};
    ranks->setting.count = shard_elements * world;
    int code = ranks_init(ranks);
    if (code != ERR_NONE) {
        ranks_free(ranks);
        return code;
    }
    if (!setting->comm && !setting->device)
        comm_cores_open(setting->world, &ranks->cores);
    code = threads_start(ranks);
    if (code != ERR_NONE) {
        comm_abort(ranks->ranks[0].comm, err_message());
        ranks_end(ranks);
    }
    return code;
}

int comm_ranks_prepare(struct comm_ranks *ranks, enum task task, bool poisons)
{
    assert(!ranks->setting.in_place || ranks->calls == 1);
    assert(ranks->setting.comm || (task != TASK_NATIVE && task != TASK_GRAPH));
    struct comm_rank *self = &ranks->ranks[0];
    ranks->task = task;
    ranks->poisons = poisons;
    TRY(comm_barrier(self->comm));
    TRY(rank_prepare(self));
    if (task == TASK_END)
        return ERR_NONE;
    // All ranks are awake when this returns, so the timed repetition does not wait for them to wake.
    return comm_barrier(self->comm);
}

int comm_ranks_repeat(struct comm_ranks *ranks)
{
    return rank_repeat(&ranks->ranks[0]);
}

int comm_ranks_close(struct comm_ranks *ranks, size_t *wrong_count)
{
    uint64_t wrong = 0;
    int code = comm_ranks_prepare(ranks, TASK_END, false);
    for (int i = 1; i < ranks->started; i++)
        pthread_join(ranks->ranks[i].thread, NULL);
    ranks->started = 0;
    for (int i = 0; i < ranks->own_count; i++)
        wrong += ranks->ranks[i].wrong_count;
    if (code == ERR_NONE)
        code = comm_ranks_sum(ranks, wrong, &wrong);
    ranks_end(ranks);
    *wrong_count = (size_t)wrong;
    return code;
}
