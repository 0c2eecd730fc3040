// SPDX-License-Identifier: Apache-2.0
// A rank of `bench checkpoint`, for the files that make (checkpoint_ranks.c) and save and load its states
// (checkpoint_saves.c).
#pragma once

#include "bench/checkpoint/checkpoint_case.h"

#include <pthread.h>

enum { MESSAGE_BYTES = 512 };

struct checkpoint_rank {
    const struct checkpoint_ranks *all;
    int number;
    struct comm *comm;
    struct ledger ledger;
    struct tier *tier;
    struct tier_nvme *nvme;
    struct executor *executor;
    struct stage stage;
    float *shard;  // room for the largest shard of a bucket
    float *copy;   // of an asynchronous save; null before the first
    struct ongoing_save *saving;
    int (*run)(struct checkpoint_rank *rank, void *context);
    void *context;
    pthread_t thread;
    int code;
    char message[MESSAGE_BYTES];
};

// Runs a function on a thread for each rank. Returns the error of the rank that failed first.
int checkpoint_on_all(struct checkpoint_ranks *ranks, int (*run)(struct checkpoint_rank *rank, void *context),
                      void *context);
