// SPDX-License-Identifier: Apache-2.0
#include "bench/ranks/ranks.h"

#include "bench/harness/registers.h"

#include "base/err.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>

enum {
    SAMPLE_TARGET_NS = 20000000,  // several time slices, so that every sample sees competing processes
    SAMPLE_LEAST_NS = 2000000,    // for a machine of many processors, which has less time for each
    ROUNDS_MAX = 1 << 20,
};

double ranks_items(const struct ranks_lane *lane)
{
    return lane->params > 0 ? (double)lane->params : registers_flops() / 2;
}

// Returns the nanoseconds that this thread was ready to run but did not; -1: unknown.
static double waited_ns(void)
{
    uint64_t ran, waited;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    bool known = file && fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2;
    if (file)
        fclose(file);
    return known ? (double)waited : -1;
}

static int rank_open(struct rank *rank)
{
    const struct adam_case of = {&adam_variants[0], recipe_at(0), isa_now(), rank->of->lane->params, 1};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)rank->processor, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
        return err_set(ERR_USAGE, "--pin %d: this process may not run on that processor", rank->processor);
    if (of.count == 0)
        return ERR_NONE;
    // Pinned before allocating, so that the memory lies on the processor's own node.
    TRY(adam_arrays_open(of.count, of.threads, &rank->arrays));
    adam_arrays_fill(&rank->arrays, DTYPE_FP32);
    return adam_case_step(&of, &rank->arrays, &rank->step);
}

static void rank_sample(struct rank *rank, uint64_t rounds)
{
    double waited = waited_ns();
    uint64_t begin_ns = clock_now_ns();
    for (uint64_t i = 0; i < rounds; i++)
        if (rank->of->lane->params > 0)
            adam_update(&rank->step);
        else
            rank->wrong_count += !registers_pass();
    rank->ns = (double)(clock_now_ns() - begin_ns);
    rank->waited_ns = waited < 0 ? -1 : waited_ns() - waited;
    rank->step_count += rounds;
}

static void *rank_main(void *context)
{
    struct rank *rank = context;
    rank->code = rank_open(rank);
    snprintf(rank->message, sizeof rank->message, "%s", err_message());
    sem_post((sem_t *)(uintptr_t)&rank->of->done);
    for (;;) {
        while (sem_wait(&rank->go) != 0)
            continue;
        uint64_t rounds = rank->of->rounds;
        if (rounds == 0)
            return NULL;
        rank_sample(rank, rounds);
        sem_post((sem_t *)(uintptr_t)&rank->of->done);
    }
}

static void wait_for(struct ranks *ranks, int count)
{
    for (int i = 0; i < count; i++)
        while (sem_wait(&ranks->done) != 0)
            continue;
}

// Samples ranks [first, first + count) together. If ranks are processes, the others wait in a barrier.
static int sample(struct ranks *ranks, int first, int count)
{
    if (ranks->comm) {
        struct rank *own = &ranks->list[comm_rank(ranks->comm)];
        TRY(comm_barrier(ranks->comm));
        if (own->index >= first && own->index < first + count)
            rank_sample(own, ranks->rounds);
        return comm_barrier(ranks->comm);
    }
    for (int i = first; i < first + count; i++)
        sem_post(&ranks->list[i].go);
    wait_for(ranks, count);
    return ERR_NONE;
}

static bool is_here(const struct ranks *ranks, int index)
{
    return !ranks->comm || comm_rank(ranks->comm) == index;
}

static void keep(struct rank *rank, bool together)
{
    struct rank_times *times = &rank->times[together];
    double items = ranks_items(rank->of->lane) * (double)rank->of->rounds;
    times->samples.values[times->samples.count++] = rank->ns / items;
    times->elapsed_ns += rank->ns;
    times->waited_ns += rank->waited_ns;
}

// One sample of each kind per turn, so that a drift of the machine affects all alike.
int ranks_take_turns(struct ranks *ranks, bool counted)
{
    assert(ranks->rounds > 0);
    for (int i = 0; i < ranks->world; i++) {
        TRY(sample(ranks, i, 1));
        if (counted && is_here(ranks, i))
            keep(&ranks->list[i], false);
    }
    TRY(sample(ranks, 0, ranks->world));
    for (int i = 0; i < ranks->world && counted; i++)
        if (is_here(ranks, i))
            keep(&ranks->list[i], true);
    return ERR_NONE;
}

int ranks_start(struct ranks *ranks)
{
    int rc = ERR_NONE;
    if (ranks->comm) {
        rc = rank_open(&ranks->list[comm_rank(ranks->comm)]);
        return rc == ERR_NONE ? comm_barrier(ranks->comm) : rc;
    }
    for (; ranks->started < ranks->world && rc == ERR_NONE; ranks->started++) {
        struct rank *rank = &ranks->list[ranks->started];
        sem_init(&rank->go, 0, 0);
        if (pthread_create(&rank->thread, NULL, rank_main, rank) != 0) {
            sem_destroy(&rank->go);
            rc = err_set(ERR_MEMORY, "no thread for rank %d", rank->index);
            break;
        }
    }
    wait_for(ranks, ranks->started);
    for (int i = 0; i < ranks->started && rc == ERR_NONE; i++)
        if (ranks->list[i].code != ERR_NONE)
            rc = err_set(ranks->list[i].code, "rank %d: %s", i, ranks->list[i].message);
    return rc;
}

void ranks_stop(struct ranks *ranks)
{
    ranks->rounds = 0;
    if (ranks->comm)
        adam_arrays_close(&ranks->list[comm_rank(ranks->comm)].arrays);
    for (int i = 0; i < ranks->started; i++)
        sem_post(&ranks->list[i].go);
    for (int i = 0; i < ranks->started; i++) {
        pthread_join(ranks->list[i].thread, NULL);
        adam_arrays_close(&ranks->list[i].arrays);
        sem_destroy(&ranks->list[i].go);
    }
}

int ranks_verify(const struct ranks *ranks)
{
    for (int i = 0; i < ranks->world; i++) {
        const struct rank *rank = &ranks->list[i];
        if (!is_here(ranks, i))
            continue;
        int rc = rank->wrong_count > 0 ? err_set(ERR_CHECK, "fused multiply-adds of registers are wrong") : ERR_NONE;
        if (rank->of->lane->params > 0)
            rc = adam_arrays_check(&rank->arrays, &rank->step, rank->step_count);
        if (rc != ERR_NONE)
            return err_prefix(rc, "ranks: rank %d, processor %d", rank->index, rank->processor);
    }
    return ERR_NONE;
}

struct ranks_turns ranks_turns_within(double seconds, int world, size_t warmup, size_t repeat)
{
    struct ranks_turns turns = {warmup, repeat, SAMPLE_TARGET_NS};
    // Each rank alone, and all together.
    double turn_samples = world + 1, ns = seconds * 1e9;
    if (seconds <= 0 || (double)(warmup + repeat) * turn_samples * turns.sample_ns <= ns)
        return turns;
    turns.sample_ns = ns / turn_samples / (double)(warmup + repeat);
    if (turns.sample_ns >= SAMPLE_LEAST_NS)
        return turns;
    turns.sample_ns = SAMPLE_LEAST_NS;
    turns.warmup = warmup > 0;
    double counted = floor(ns / turn_samples / SAMPLE_LEAST_NS) - (double)turns.warmup;
    turns.repeat = counted > BENCH_REPEAT_LEAST ? (size_t)counted : BENCH_REPEAT_LEAST;
    turns.repeat = turns.repeat < repeat ? turns.repeat : repeat;
    return turns;
}

int ranks_choose_rounds(struct ranks *ranks)
{
    assert(ranks->list && ranks->world > 0);
    ranks->rounds = 1;
    TRY(sample(ranks, 0, 1));
    TRY(sample(ranks, 0, 1));
    if (is_here(ranks, 0)) {
        double rounds = ranks->sample_ns / ranks->list[0].ns + 1;
        ranks->rounds = rounds < ROUNDS_MAX ? (uint64_t)rounds : ROUNDS_MAX;
    }
    return ranks->comm ? comm_broadcast(ranks->comm, &ranks->rounds, sizeof ranks->rounds, 0) : ERR_NONE;
}
