// SPDX-License-Identifier: Apache-2.0
// Checkpoints. A store is a folder; each checkpoint in it is a folder of its own:
//
//   DIR/step-00000012/rank-0.safetensors ...   the elements that each rank owns: tensors STATE/NAME[BEGIN:END],
//                                              elements BEGIN to END of the flattened tensor, fp32. A rank of tensor
//                                              parallelism has many of them of a tensor that is cut by columns. Then
//                                              the digests of the file's blocks (blocks.h)
//   DIR/step-00000012/manifest.json            everything else, and the digests (manifest.h)
//
// Saving writes all files to DIR/step-00000012.partial and makes them durable, the manifest last; then it renames the
// folder, makes the rename durable, and only then removes checkpoints older than the last two, while the run goes on.
// From the first save on a complete checkpoint therefore exists at every moment. DIR/.lock excludes a second run as
// long as a process of the first one lives; who holds it alone removes folders called .partial or .replaced, which a
// dead run left.
//
// Of a model with adapters a checkpoint holds these alone; the base is what the run began with, so that a run can only
// continue with the same initial weights.
//
// An asynchronous save has the bytes of one that is waited for: each rank copies all that its file holds, and a thread
// of its own writes the file from the copy while steps go on. Nothing is published before all files are durable.
//
// No tier accounts for the memory of a save or load, a shard of one state at a time, but for the copy of an
// asynchronous save; no ledger counts its collectives or its traffic with NVMe.
//
// Loading does not depend on how the tensors were partitioned: every rank reads the elements that it owns in this run
// from the files that hold them. World, stage, buckets, tiers and schedule may differ, and the states keep every bit.
// A byte of a file is read once, by the rank whose elements it holds, and its block's digest compared on the way; a
// block at the border of two ranks' elements is read by both. All ranks' shards together have every element, so that
// only the files' headers are left: rank i modulo the world checks that of rank-i.safetensors, before any state
// changes. Files of version 1 of the manifest have no such digests: one rank checks each as a whole first, and all then
// read it again. The next steps have the bits of an uninterrupted run as long as every gradient is the same sum, term
// by term: in any stage at the same world and micro-batch, except stages 0 and 1 against 2 and 3 with accumulation over
// micro-steps (oracle.h). Otherwise they have the bits of a run that changed at this step, and the notes say so.
#pragma once

#include "base/err.h"
#include "ref/checkpoint/manifest.h"
#include "ref/stage/stage_shard.h"
#include "ref/model/text.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- facts that determine bits ---

enum fact_kind {
    FACT_MUST,    // a run with another value cannot continue
    FACT_MAY,     // it can; the new value determines the bits from here on
    FACT_BEFORE,  // it affected only the initial state
};

enum { FACT_MAX = 40, FACT_BYTES = 256 };

struct facts {
    size_t count;
    struct fact {
        const char *key;  // static
        enum fact_kind kind;
        char value[FACT_BYTES];
    } rows[FACT_MAX];
};

// text is null for a model without text. weights is the digest of the file with the initial parameters, null if the
// seed determines them.
struct facts_setting {
    const struct model *model;
    const struct config *config;
    const struct text *text;
    const char *weights;
    uint64_t seed;
    int world;
};

// Collects the facts of a run. ERR_USAGE: there is no such stage.
int facts_of(const struct facts_setting *setting, struct facts *out);

// Compares the facts of this run with a checkpoint's. ERR_USAGE: a FACT_MUST differs. Appends a line to the notes for
// each FACT_MAY that differs. *repeatable: true if one run under these facts would have made all steps so far.
enum { NOTES_BYTES = 4096 };
int facts_compare(const struct facts *facts, const struct manifest *manifest, const char *path, bool *repeatable,
                  char notes[NOTES_BYTES]);

// --- reading ---

struct checkpoint;

// Opens a checkpoint's folder, or the newest complete checkpoint of a store; the notes then list newer ones that were
// never finished. *out is NULL if the store does not exist or holds no checkpoint. ERR_USAGE if none of its checkpoints
// is complete, or the newest complete one cannot be read: no older one takes its place. Checks headers, sizes and
// coverage; checkpoint_load checks digests.
int checkpoint_open(const char *path, struct checkpoint **out, char notes[NOTES_BYTES]);
void checkpoint_close(struct checkpoint *checkpoint);

// Opens one checkpoint's folder. ERR_USAGE: it is not a complete checkpoint.
int checkpoint_open_folder(const char *path, struct checkpoint **out);

// Returns whether checkpoints of a model hold a parameter: all but the frozen base of adapters, which is the initial
// weights.
bool checkpoint_holds(const struct model *model, bool frozen);

// ERR_USAGE: the checkpoint is of another model: the name differs, or the name, shape or frozen flag of a parameter.
int checkpoint_check_model(const struct checkpoint *checkpoint, const struct model *model);

const char *checkpoint_path(const struct checkpoint *checkpoint);
const struct manifest *checkpoint_manifest(const struct checkpoint *checkpoint);

// Finds a parameter's index in the manifest by name; false if there is none.
bool checkpoint_find(const struct checkpoint *checkpoint, const char *name, size_t *param);

// Reads the whole file of every rank. ERR_USAGE: a digest is not the manifest's.
int checkpoint_check_digests(const struct checkpoint *checkpoint);

// Reads elements [first, first + count) of a state (manifest.h) of the manifest's parameter, and compares no digest.
// Thread-safe.
int checkpoint_read(const struct checkpoint *checkpoint, int state, size_t param, uint64_t first, size_t count,
                    float *out);

// Collective. Loads this rank's shards, its model parameters, and the optimizer's counters, loss scale and recipe
// states. comm: of the ranks of all parts of the model, which of a whole one is the stage's. ERR_USAGE if the stage has
// another model, or names the file and the bytes that are damaged; after an error the stage's states are undefined.
int checkpoint_load(const struct checkpoint *checkpoint, struct comm *comm, struct stage *stage);

// --- writing ---

struct store {
    char *path;
    int lock;         // -1: not open; shared by the run's processes
    uint64_t newest;  // step of its newest complete checkpoint; 0: none
    struct removal {  // of old checkpoints, after a save; its thread refers to it
        pthread_t thread;
        bool is_running;
        const char *store;
        uint64_t newest;
        int rc;
        char message[ERR_MESSAGE_BYTES];
    } removal;
};

// Creates the folder if it is missing, takes the lock, and removes the leftovers of dead runs. ERR_USAGE if a process
// of another run holds the lock.
int store_open(const char *path, struct store *out);

// The store of a run whose rank 0 is another process, which has opened it: this process holds the lock as well.
// ERR_USAGE: the folder is not there, or another run has it.
int store_follow(const char *path, struct store *out);

// Waits for the removal of old checkpoints. ERR_USAGE, ERR_IO: the last one failed, which is reported once.
int store_settle(struct store *store);

// Waits as store_settle and releases the lock; the run's last process removes the leftovers of a failed save.
// Null-safe.
void store_close(struct store *store);

// A step's entries of the manifest that the stage does not hold.
struct save_moment {
    uint64_t step;
    bool last_applied;
    double loss;
    bool repeatable;
    const struct facts *facts;
};

// Collective, of the same ranks as checkpoint_load. When it returns, the checkpoint is durable, and a thread of rank 0
// removes checkpoints older than the last two, for which the next save, store_settle and store_close wait. Only rank 0
// changes the store, which is not moved. ERR_IO names the file; earlier checkpoints stay unchanged. The error of an
// earlier removal is returned after this save.
int checkpoint_save(struct store *store, struct comm *comm, struct stage *stage, const struct save_moment *moment);

// The same in two collective calls, between which the stage may change: the first one returns when this rank's states
// are copied, the second one when the checkpoint is durable. copy has room for checkpoint_copy_bytes and stays the
// save's until the second call; null: the first call writes the file. A store has one save at a time. The moment's
// facts outlive the save. After an error of the first call *out is null, and the second call frees the save.
struct ongoing_save;
int checkpoint_begin_save(struct store *store, struct comm *comm, struct stage *stage, const struct save_moment *moment,
                          float *copy, struct ongoing_save **out);
int checkpoint_end_save(struct ongoing_save *saving);

// Returns whether this rank's file is being written; false also if that has failed, which the second call returns.
bool checkpoint_save_writes(const struct ongoing_save *saving);

// In place of the second call when another rank has failed: waits for this rank's file, and publishes nothing.
// Null-safe.
void checkpoint_abandon_save(struct ongoing_save *saving);

// The most that a copy of this rank takes in a run with the stage's configuration. The stage may be planned.
uint64_t checkpoint_copy_bytes(const struct stage *stage);

// --- shared by the files of this folder ---

// Where elements lie: count of them, from byte `begin` on of the data of a file.
struct checkpoint_place {
    size_t file;
    uint64_t begin, count;
};

// The place of a parameter's element `first`, which exists, and of those that follow it there.
struct checkpoint_place checkpoint_find_place(const struct checkpoint *checkpoint, int state, size_t param,
                                              uint64_t first);
const struct safetensors *checkpoint_file(const struct checkpoint *checkpoint, size_t file);

// Reads with digests, on one thread. A block that is read in part is kept, until another one of a file with the same
// index modulo READER_BLOCKS is.
enum { READER_BLOCKS = 16 };
struct checkpoint_reader {
    const struct checkpoint *checkpoint;
    unsigned char **tables;  // by file: the tensor "blocks"; null: not read yet
    struct reader_block {
        size_t file;
        uint64_t block;
        char *bytes;  // null: none
    } kept[READER_BLOCKS];
};

int checkpoint_reader_open(const struct checkpoint *checkpoint, struct checkpoint_reader *out);
void checkpoint_reader_close(struct checkpoint_reader *reader);

// Checks what no tensor's elements are: the file's header; or the whole file, where it has no digests of its blocks.
int checkpoint_reader_begin(struct checkpoint_reader *reader, size_t file);

// As checkpoint_read. ERR_USAGE names the bytes that are damaged; *out is then undefined.
int checkpoint_reader_read(struct checkpoint_reader *reader, int state, size_t param, uint64_t first, size_t count,
                           float *out);

// Consecutive elements of a parameter of the whole model that lie in this rank's shard of a bucket.
struct checkpoint_run {
    const struct model_param *param;
    size_t first, count;  // elements
    size_t shard_index;   // of the first one
    bool counted;         // false: another part of the model stores them
};

// The runs of a bucket, in the shard's order; *walk starts as {0}. False when there are no more.
struct checkpoint_walk {
    int next;
    struct piece piece;
    size_t at, end;  // of the piece, in the parameter of the stage's model
};
bool checkpoint_next_run(const struct stage *stage, int bucket, struct checkpoint_walk *walk,
                         struct checkpoint_run *out);

// The model of which the stage's is a part, or the stage's own.
const struct model *checkpoint_model(const struct stage *stage);

enum { STEP_NAME_BYTES = 40 };

// "step-00000012"
const char *checkpoint_step_name(uint64_t step, char out[STEP_NAME_BYTES]);

// Endings of folders that are being written or removed.
#define STORE_PARTIAL ".partial"
#define STORE_REPLACED ".replaced"

// Opens the checkpoint of a step in a store; *out is NULL if it was never finished: it has no manifest. ERR_USAGE: it
// cannot be read, or holds another step than its name says.
int store_open_step(const char *store, uint64_t step, struct checkpoint **out);

// Opens the newest complete checkpoint of a store, NULL if there is none; counts and notes newer ones that were never
// finished. Fails as store_open_step does.
int store_newest(const char *store, struct checkpoint **out, size_t *incomplete, char notes[NOTES_BYTES]);

// Removes the folder of a step: renames it before removing its first file. ERR_USAGE: it is a link, or holds a folder;
// nothing is removed then.
int store_retire(const char *store, uint64_t step);

// Begins a thread that removes complete checkpoints older than the store's last two. Links and what cannot be read
// stay.
void store_begin_removal(struct store *store);
void store_await_removal(struct store *store);

// The step in a checkpoint's name; 0 for any other name.
uint64_t checkpoint_step_of(const char *name);

// Lists the steps of the checkpoint folders in a store, newest first; the caller frees *steps. ERR_IO if it cannot be
// read.
int checkpoint_list(const char *store, uint64_t **steps, size_t *count);
