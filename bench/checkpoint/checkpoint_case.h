// SPDX-License-Identifier: Apache-2.0
// The parts of `bench checkpoint`. Ranks are threads of this process, each with a stage of ZeRO-3 whose states have
// known values; between two calls no thread runs. A file holds the states of a rank. Cases: ranks save, or load
// what was saved, in turn with fio.
#pragma once

#include "bench/harness/bench.h"
#include "ref/checkpoint/checkpoint.h"
#include "bench/harness/fio.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

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

// An asynchronous save in its parts: each rank's memory for the copy, *total_bytes of all ranks; checkpoint_begin_save,
// which copies; checkpoint_end_save. And memcpy of as many bytes in that memory.
int checkpoint_ranks_prepare_save(struct checkpoint_ranks *ranks, uint64_t *total_bytes);
int checkpoint_ranks_begin_save(struct checkpoint_ranks *ranks, struct store *store, uint64_t step);
int checkpoint_ranks_end_save(struct checkpoint_ranks *ranks);
int checkpoint_ranks_copy(struct checkpoint_ranks *ranks);

struct checkpoint_files {
    int count;
    uint64_t total_bytes;
    struct checkpoint_file {
        char path[PATH_MAX];
        uint64_t bytes;
    } * files;  // [count]
};

// The rank files of the newest checkpoint of a store. The caller closes *out, also after an error.
int checkpoint_files_open(const char *store, struct checkpoint_files *out);
void checkpoint_files_close(struct checkpoint_files *files);

// Removes the files' pages from the page cache. *resident_bytes: what is still in memory, as on a file system that is
// nowhere else. ERR_IO names the file.
int checkpoint_files_drop(const struct checkpoint_files *files, uint64_t *resident_bytes);

// Runs fio: a job for each file reads it from begin to end, or writes as many bytes to a new file in `folder` and syncs
// it, all jobs together, in requests as large as a checkpoint's. *bytes_per_ns: of all jobs together.
int checkpoint_files_fio_read(const struct checkpoint_files *files, double *bytes_per_ns);
int checkpoint_files_fio_write(const struct checkpoint_files *files, const char *folder, double *bytes_per_ns);

struct checkpoint_bench {
    const struct bench_options *options;
    const struct model *model;
    char fio[FIO_VERSION_BYTES];             // empty: not installed
    char folder[PATH_MAX];                   // of this run, in the first folder for storage
    char store_path[PATH_MAX];               // in it
    struct store store;                      // open while `saved_by` is not 0
    int saved_by;                            // ranks that saved the store's checkpoints
    uint64_t step;                           // of the store's newest checkpoint
    struct bench_samples samples, baseline;  // GB/s
};

// Saves a checkpoint in each round; afterwards the ranks load the last one and compare every element.
int checkpoint_case_save(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks);

// The same, asynchronously: what steps wait for, which is the copy, in turn with memcpy.
int checkpoint_case_begin(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks);

// Loads the newest checkpoint in each round, with nothing of it in the page cache, and compares every element. Skips
// the case where files stay in memory.
int checkpoint_case_load(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks);

// Makes an empty folder in the first one for storage, which the caller removes, and has signals that ask this program
// to end noted.
int checkpoint_folder_make(const struct bench_storage *storage, char out[PATH_MAX]);

// The model of a name; null: a GPT of 63 million parameters, or quick a small one. ERR_USAGE: there is none.
int checkpoint_model_find(const char *name, bool quick, const struct model **out);

// ERR_IO after such a signal.
int checkpoint_check_interrupt(void);
