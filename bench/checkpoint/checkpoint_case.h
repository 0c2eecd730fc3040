// SPDX-License-Identifier: Apache-2.0
// The cases of `bench checkpoint`: ranks save, or load what was saved, in turn with fio.
#ifndef ZG_CHECKPOINT_CASE_H
#define ZG_CHECKPOINT_CASE_H

#include "bench/checkpoint/checkpoint_ranks.h"
#include "bench/harness/fio.h"

struct checkpoint_bench {
    const struct bench_options *options;
    const struct model *model;
    char fio[FIO_VERSION_BYTES];           // empty: not installed
    char folder[PATH_MAX];                 // of this run, in the first folder for storage
    char store_path[PATH_MAX];             // in it
    struct store store;                    // open while `saved_by` is not 0
    int saved_by;                          // ranks that saved the store's checkpoints
    uint64_t step;                         // of the store's newest checkpoint
    struct bench_samples samples, of_fio;  // GB/s
};

// Saves a checkpoint in each round; afterwards the ranks load the last one and compare every element.
int checkpoint_case_save(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks);

// Loads the newest checkpoint in each round, with nothing of it in the page cache, and compares every element. Skips
// the case where files stay in memory.
int checkpoint_case_load(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks);

// A handler of signals, after which the cases fail at their next round.
void checkpoint_case_interrupt(int signal_number);

#endif
