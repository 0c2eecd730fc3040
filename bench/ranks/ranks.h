// SPDX-License-Identifier: Apache-2.0
// The ranks of `bench ranks`: threads of this process, or processes of a launcher, of which this one is a rank and
// calls all that follows together with the others.
#ifndef ZG_RANKS_H
#define ZG_RANKS_H

#include "ref/arithmetic/adam.h"
#include "bench/adam/adam_arrays.h"
#include "bench/harness/bench.h"
#include "ref/comm/comm.h"

#include <pthread.h>
#include <semaphore.h>

struct ranks_lane {
    const char *name;
    size_t params;
};

// One rank's time in a state: alone or together.
struct rank_times {
    struct bench_samples samples;
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
    uint64_t step_count;
    double ns, waited_ns;        // of the last sample; waited_ns < 0: the system does not tell
    struct rank_times times[2];  // alone, together
    int code;
    char message[512];
};

struct ranks {
    const struct ranks_lane *lane;
    int world, started;
    struct comm *comm;  // of ranks that are processes, of which one is here; null: they are threads
    uint64_t rounds;    // of a sample; 0: the ranks end
    sem_t done;
    struct rank *list;  // by rank
};

// Opens the ranks that are here, each on its processor, with its arrays filled; ranks_stop also after an error.
int ranks_start(struct ranks *ranks);
void ranks_stop(struct ranks *ranks);

// Whether the rank is of this process.
bool ranks_has(const struct ranks *ranks, int index);

// Chooses the rounds of a sample, by rank 0's time.
int ranks_choose_rounds(struct ranks *ranks);

// One sample of each rank alone in turn, then of all together; kept in the times of those that are here, if counted.
int ranks_take_turns(struct ranks *ranks, bool counted);

// Every element of the arrays of every rank here. ERR_CHECK names rank and processor.
int ranks_verify(const struct ranks *ranks);

#endif
