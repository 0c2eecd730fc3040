// SPDX-License-Identifier: Apache-2.0
// The ranks of `bench ranks`: threads of this process, or processes of a launcher, which all call these functions
// together.
#pragma once

#include "ref/arithmetic/adam.h"
#include "bench/adam/adam_case.h"
#include "bench/harness/bench.h"
#include "ref/comm/comm.h"

#include <pthread.h>
#include <semaphore.h>

// Adam on `params` parameters, or, without any, the fused multiply-adds of a matrix product's tile in registers alone.
struct ranks_lane {
    const char *name;
    size_t params;
};

// Returns how many of its unit's items a rank works on in a round.
double ranks_items(const struct ranks_lane *lane);

// One rank's times, alone or together with the others.
struct rank_times {
    struct bench_samples samples;  // ns per parameter, or fused multiply-add
    double elapsed_ns, waited_ns;  // of all samples
};

struct ranks;

struct rank {
    const struct ranks *of;
    int index, processor;
    const char *host;
    pthread_t thread;
    sem_t go;
    struct adam_arrays arrays;
    struct adam_step step;
    uint64_t step_count, wrong_count;  // wrong_count: rounds of wrong multiply-adds
    double ns, waited_ns;              // of the last sample; waited_ns < 0: the system does not report it
    struct rank_times times[2];        // alone, together
    int code;
    char message[512];
};

struct ranks {
    const struct ranks_lane *lane;
    int world, started;
    struct comm *comm;  // if ranks are processes, of which this is one; null: they are threads
    double sample_ns;   // that a sample shall take
    uint64_t rounds;    // per sample; 0 ends the ranks
    sem_t done;
    struct rank *list;  // by rank
};

// Starts this process's ranks, each on its processor, with its arrays filled. ERR_USAGE: a processor is not allowed.
// The caller calls ranks_stop, after an error too.
int ranks_start(struct ranks *ranks);
void ranks_stop(struct ranks *ranks);

// The turns of a lane, and the duration of a sample.
struct ranks_turns {
    size_t warmup, repeat;
    double sample_ns;
};

// Returns the turns that `world` ranks have time for: shorter samples, then fewer. seconds: of one lane; 0: no limit.
// The same on every rank.
struct ranks_turns ranks_turns_within(double seconds, int world, size_t warmup, size_t repeat);

// Chooses the rounds per sample, by rank 0's time.
int ranks_choose_rounds(struct ranks *ranks);

// Samples each rank alone in turn, then all together. If counted, keeps the times of this process's ranks.
int ranks_take_turns(struct ranks *ranks, bool counted);

// Verifies every element of this process's ranks. ERR_CHECK names rank and processor.
int ranks_verify(const struct ranks *ranks);
