// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of this process, each with a stage of ZeRO-3 whose states have known values: what a checkpoint
// saves and loads. Between two calls no thread runs.
#ifndef ZG_CHECKPOINT_RANKS_H
#define ZG_CHECKPOINT_RANKS_H

#include "bench/harness/bench.h"
#include "ref/checkpoint/checkpoint.h"

enum { CHECKPOINT_WORLD_MAX = 64 };

struct checkpoint_ranks_setting {
    const struct model *model;
    int world;                            // 1 to CHECKPOINT_WORLD_MAX
    bool on_nvme;                         // the states: striped over the folders, or in memory
    const struct bench_storage *storage;  // folders and engine; outlives the ranks
};

struct checkpoint_ranks {
    struct checkpoint_ranks_setting setting;
    struct config config;
    struct facts facts;
    struct checkpoint_rank *ranks;  // [world]
};

// Threads refer to *out, which is not moved. After an error nothing is open. ERR_MEMORY, ERR_BUDGET, ERR_IO of the
// tiers.
int checkpoint_ranks_open(const struct checkpoint_ranks_setting *setting, struct checkpoint_ranks *out);
void checkpoint_ranks_close(struct checkpoint_ranks *ranks);

// Gives every element of every state a value that depends on state, parameter and element alone.
int checkpoint_ranks_fill(struct checkpoint_ranks *ranks);

// Sets every element to zero.
int checkpoint_ranks_clear(struct checkpoint_ranks *ranks);

// Compares every bit with the values of checkpoint_ranks_fill. ERR_CHECK names the first element that differs.
int checkpoint_ranks_compare(struct checkpoint_ranks *ranks);

// Collective over the ranks: checkpoint_save as the checkpoint of a step, from 1; checkpoint_load of the store's
// newest.
int checkpoint_ranks_save(struct checkpoint_ranks *ranks, struct store *store, uint64_t step);
int checkpoint_ranks_load(struct checkpoint_ranks *ranks, const char *store);

#endif
